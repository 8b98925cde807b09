"""The knob catalogue as data: what may be changed in an engine, where it is written and read back, and since when."""
