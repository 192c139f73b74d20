"""Runs of agents that stream their answers: rows, events, pages and interrupts."""
