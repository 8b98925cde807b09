"""Alertmanager, both ways: our alerts go to every instance, and its webhook brings us those of others."""
