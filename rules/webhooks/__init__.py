"""Plain webhooks, the second way to tell people: bodies by format, and one robot that keeps within its limits."""
