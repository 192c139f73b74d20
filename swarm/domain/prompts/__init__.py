"""Prompts: the text that agents get with their work."""
