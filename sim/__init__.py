"""A simulated Ascend node: an engine with continuous batching, its traffic, its devices and its HTTP face."""
