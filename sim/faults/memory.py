"""Faults of memory: one that leaks, one in pieces, one that does not suffice."""

from __future__ import annotations

from sim.device import HBM_TOTAL_MIB
from sim.faults.ailment import Ailment

HOUR = 3600.0
MOST_FRAGMENTED = 0.45
"""Here the allocator gives everything back and asks anew, so that it grows no further."""
USUAL_FRAGMENTED = 0.06
RETRY_SECONDS = 0.12
"""What a step with prefill waits for an allocator of which all is in pieces."""
BESIDE_TORCH_MIB = 600.0
"""HBM that is neither the engine's share nor free for a step: the driver, HCCL's buffers."""
TIGHT_SHARE = 0.95
"""Share of the HBM that the engine of the fault was launched to take."""
LONG_PROMPTS = ((1024, 0.3), (2048, 0.4), (3072, 0.3))


class Leak(Ailment):
    """Memory that nobody gives back: of one card, of all, or of the host. A restart frees it, and it begins again."""

    def begin(self) -> None:
        self._most = 0.0

    def live(self, seconds: float) -> None:
        node, variant = self.node, self.fault.variant
        if node.control.down:
            return
        if variant == "rss":
            node.leaked_rss_mib += self.fault.magnitude["rss_mib_per_hour"] * seconds / HOUR
        else:
            for index in range(len(node.cards)) if variant == "hbm_all" else (self.fault.card,):
                node.leaked_hbm_mib[index] += self.fault.magnitude["hbm_mib_per_hour"] * seconds / HOUR
        self._most = max(self._most, self._held())

    def restarted(self) -> None:
        self.node.leaked_rss_mib = 0.0
        self.node.leaked_hbm_mib = [0.0] * len(self.node.cards)

    def mended(self) -> bool:
        return self._held() < 0.5 * self._most

    def _held(self) -> float:
        return self.node.leaked_rss_mib + sum(self.node.leaked_hbm_mib)


class Fragmentation(Ailment):
    """The allocator reserves more and more for the same tensors, and steps with prefill wait for it."""

    def live(self, seconds: float) -> None:
        node = self.node
        if node.control.down:
            return
        reserved = 1.0 / (1.0 - node.fragmented)
        reserved *= 1.0 + self.fault.magnitude["growth_per_hour"] * seconds / HOUR
        node.fragmented = min(MOST_FRAGMENTED, 1.0 - 1.0 / reserved)
        node.set_prefill_delay(RETRY_SECONDS * (node.fragmented - USUAL_FRAGMENTED))

    def restarted(self) -> None:
        self.node.fragmented = USUAL_FRAGMENTED
        self.node.set_prefill_delay(0.0)

    def mended(self) -> bool:
        return self.node.fragmented < 1.5 * USUAL_FRAGMENTED and not self.node.control.down


class OutOfMemory(Ailment):
    """A full step needs more than the engine's memory share leaves: at the first long prompts, or in a start's own try.

    Less memory share or a smaller token budget mends it; a restart alone does not.
    """

    def begin(self) -> None:
        node = self.node
        full = node.batch_max_tokens
        node.memory_share = TIGHT_SHARE
        # Chosen such that a full step needs so much more than there is.
        self._mib_per_token = self.fault.magnitude["need"] * self._free_mib() / full
        node.engine.largest_prefill = 0
        if self.fault.variant == "start":
            node.die(patient=False)
            node.start_engine(())  # somebody's own restart, which fails
        else:
            node.users_ask(LONG_PROMPTS)

    def live(self, seconds: float) -> None:
        node = self.node
        if node.control.down:
            return
        if node.engine.largest_prefill * self._mib_per_token > self._free_mib():
            node.write_log(
                self._line(node.engine.largest_prefill),
                "ERROR EngineDeadError: EngineCore encountered an issue",
            )
            node.die(patient=False)
        node.engine.largest_prefill = 0

    def start_breaks(self) -> tuple[str, ...]:
        # vLLM tries a full step when it starts, to learn how much memory is left for the KV cache. With long prompts
        # that try is passed, and the buffers of the prompts themselves are what is too much.
        node = self.node
        need = node.batch_max_tokens * self._mib_per_token
        if self.fault.variant == "long_prompts" or need <= self._free_mib():
            return ()
        failed = "RuntimeError: Engine core initialization failed. See root cause above."
        return self._line(int(node.batch_max_tokens)), failed

    def mended(self) -> bool:
        node = self.node
        return not node.control.down and node.batch_max_tokens * self._mib_per_token <= self._free_mib()

    def _free_mib(self) -> float:
        return (1.0 - self.node.memory_share) * HBM_TOTAL_MIB - BESIDE_TORCH_MIB

    def _line(self, tokens: int) -> str:
        gib = 1024.0
        total, asked = HBM_TOTAL_MIB / gib, tokens * self._mib_per_token / gib
        held = self.node.memory_share * total
        return (
            f"(EngineCore pid=1002) RuntimeError: NPU out of memory. Tried to allocate {asked:.2f} GiB "
            f"(NPU {self.fault.card}; {total:.2f} GiB total capacity; {0.94 * held:.2f} GiB already allocated; "
            f"{0.94 * held:.2f} GiB current active; {self._free_mib() / gib:.2f} GiB free; "
            f"{held:.2f} GiB reserved in total by PyTorch)"
        )
