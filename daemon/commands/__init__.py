"""The commands, one module for each group; `daemon.cli` puts them together."""
