"""The inbox of polling agents: claiming, reading and leasing messages."""
