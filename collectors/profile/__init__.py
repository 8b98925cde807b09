"""Profiles of msprof and torch_npu: what they hold (text or DB), and what that says of the engine."""
