"""DCMI: what only the driver's own library tells of a device."""
