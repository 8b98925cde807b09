"""Trimtab's part inside a vLLM server: hot knobs with leases, exact request timings and an admission gate."""

__version__ = "0.1.0"
