"""What `trimtab serve` is while it owns an engine: starts it, ends it, and brings it back if nobody else does."""
