"""The rules in the daemon: evaluated over the history, kept in the store, told to whoever listens."""
