"""Threads: their rows, their transcripts, and how far Slack's events were read."""
