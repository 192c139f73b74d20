"""From Slack to the inbox: storing events, reading threads, and catching up on missed messages."""
