"""Playbooks: troubleshooting procedures as data, and the mind that walks them."""
