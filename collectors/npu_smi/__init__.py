"""npu-smi: its outputs, from text to dataclasses and samples, and the collectors that run it."""
