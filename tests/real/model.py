"""Makes a tiny Qwen3 model folder: a config for dummy weights, and a byte-level tokenizer trained on the spot.

Run with the real vLLM's Python, which has `tokenizers`: `python tests/real/model.py FOLDER`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

VOCABULARY = 1024

CONFIG: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 256,
    "intermediate_size": 768,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "hidden_act": "silu",
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "attention_bias": False,
    "tie_word_embeddings": True,
    "use_sliding_window": False,
    "torch_dtype": "float32",
    "vocab_size": VOCABULARY,
    "bos_token_id": 0,
    "eos_token_id": 1,
}

CORPUS = [
    f"The {noun} {verb} the {other} in {number} steps, and then it {verb} {number} more."
    for noun in ("engine", "scheduler", "device", "request", "token", "cache", "rudder", "vessel")
    for verb in ("measures", "fills", "steers", "drains", "follows", "answers", "keeps", "turns")
    for other in ("queue", "batch", "block", "window", "current", "helm", "budget", "prompt")
    for number in range(1, 60, 7)
]


def main() -> None:
    """Write the folder named on the command line."""
    from tokenizers import (  # type: ignore[import-not-found]  # it is the other environment's
        Tokenizer,
        decoders,
        models,
        pre_tokenizers,
        trainers,
    )

    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<s>", "</s>", "<pad>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    described = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 4096, **special}
    (folder / "tokenizer_config.json").write_text(json.dumps(described, indent=1))
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=1))


if __name__ == "__main__":
    main()
