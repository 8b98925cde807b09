"""A restart: pre-flight, drain, stop, start, proof, and the way back to the last known good."""
