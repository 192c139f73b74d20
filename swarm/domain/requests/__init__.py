"""Requests to people: their forms and schemas, what a card shows, what a press says."""
