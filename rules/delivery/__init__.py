"""What every way of telling others has in common: one bounded POST, a back-off, a figure of how it goes."""
