"""hccn_tool: the network of each device."""
