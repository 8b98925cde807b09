"""The parts of the configuration file that are about engines: the tuned one, those beside it, the stall probe."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from collectors.engines.families import KindName
from collectors.engines.kinds import KindChoice
from daemon.sections.base import FilePath, RootPath, Seconds, Section, Url
from daemon.sections.restart import RestartSection
from daemon.sections.server import ServerSection

RoleChoice = Literal["auto", "prefill", "decode", "both", "headless"]


class TlsSection(Section):
    """How to speak TLS with an engine at an https address."""

    ca_file: FilePath | None = Field(default=None, description="certificates that sign the engine's, PEM")
    verify: bool = Field(default=True, description="check the engine's certificate")


class EngineSection(Section):
    """The engine Trimtab sits beside."""

    url: Url = Field(default="http://127.0.0.1:8000", description="address of the engine's HTTP server")
    root_path: RootPath = Field(default="", description="path prefix of the engine's API (--root-path)")
    metrics_url: Url | None = Field(
        default=None, description="address of the metrics page; unset: url, root_path and /metrics"
    )
    kind: KindChoice = Field(default="auto", description="auto (by its page), vllm, sglang or mindie")
    role: RoleChoice = Field(
        default="auto",
        description="auto (by its command line, page or server), prefill, decode, both or headless",
    )
    api_key_file: FilePath | None = Field(
        default=None, description="file with the engine's API key; else $TRIMTAB_ENGINE_API_KEY"
    )
    token_file: FilePath | None = Field(
        default=None, description="file with the plugin's token; else $TRIMTAB_TOKEN_FILE, else run_dir/token"
    )
    run_dir: FilePath | None = Field(
        default=None,
        description="shared with the plugin; else $TRIMTAB_RUN_DIR, else state folder/run",
    )
    timeout_seconds: Seconds = Field(default=5.0, description="longest wait for one answer of the engine")
    tls: TlsSection = TlsSection()
    restart: RestartSection = RestartSection()
    server: ServerSection = ServerSection()

    @property
    def kind_or_vllm(self) -> KindName:
        """The kind, where nobody but its page could tell it: what is tuned is vLLM."""
        return "vllm" if self.kind == "auto" else self.kind


class WatchedEngineSection(Section):
    """An engine on this node that is watched beside the tuned one, and never changed."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")] = Field(
        description="the label `server` of its samples: small letters, digits, - and _"
    )
    url: Url = Field(description="address of its HTTP server; of MindIE, that of its metricsPort")
    root_path: RootPath = Field(default="", description="path prefix of its API (--root-path)")
    api_key_file: FilePath | None = Field(default=None, description="file with its API key")
    kind: KindChoice = Field(default="auto", description="auto (by its page), vllm, sglang or mindie")
    role: RoleChoice = Field(default="auto", description="auto, prefill, decode, both or headless")
    tls: TlsSection = TlsSection()


class ProbeSection(Section):
    """One request for one token, sent only while the tuned engine looks stuck."""

    enabled: bool = Field(default=False, description="send it")
    after_seconds: Annotated[float, Field(ge=10, le=3600)] = Field(
        default=60, description="an engine whose requests run so long without a step or a token looks stuck"
    )
    pause_seconds: Annotated[float, Field(ge=10, le=3600)] = Field(
        default=60, description="least time between two probes"
    )
    timeout_seconds: Seconds = Field(default=20, description="longest wait for the token")
