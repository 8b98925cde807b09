"""The parts of the configuration file that sources and engines have, each beside its like."""
