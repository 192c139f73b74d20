"""Threads: their rows, their transcripts, and how far Slack was read."""
