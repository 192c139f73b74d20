"""Services for built-in agents: runs, sessions, model usage, documents."""
