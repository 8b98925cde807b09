"""Mind 2: alert rules, the alerts they raise, and the playbooks that walk when one fires.

Free of clocks and of I/O but for the store: what is to be done goes out as commands, and what came of it comes back.
"""
