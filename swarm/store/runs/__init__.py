"""Runs of agents that answer live: rows, events, pages, interrupts."""
