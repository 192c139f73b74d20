"""Prompts: what agents read when there is work for them."""
