"""From Slack to the inbox: stores events, reads threads, and catches up on missed messages."""
