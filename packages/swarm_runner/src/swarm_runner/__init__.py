"""Runs coding CLIs as agents of swarm: claude, codex, opencode, any program."""
