"""What the installed engine really takes, read from its source and never imported."""
