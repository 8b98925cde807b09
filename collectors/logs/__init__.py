"""What the Ascend stack, the engine and the kernel write into their logs."""
