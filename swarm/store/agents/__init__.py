"""Agents, their messages to each other, their load."""
