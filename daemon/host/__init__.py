"""The hands of the host lane: threads, pages and node-wide settings of this host."""
