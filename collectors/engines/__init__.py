"""Inference engines seen from outside: their metrics pages, what they are, and whether they are stuck."""
