"""What playbooks may do, done: their actions through the lanes that exist, their captures, and the loop that walks."""
