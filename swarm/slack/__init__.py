"""Slack: the one gateway through which the system calls it, and the pace it keeps."""
