"""npu-exporter: its page of metrics as a source of NPU readings."""
