"""Runs of agents that stream their answers: rows, events and pages."""
