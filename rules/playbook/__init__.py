"""Playbooks: troubleshooting procedures as data, and the mind that walks them."""

from rules.playbook.load import PlaybookError, load, read
from rules.playbook.schema import Playbook, schema

__all__ = ["Playbook", "PlaybookError", "load", "read", "schema"]
