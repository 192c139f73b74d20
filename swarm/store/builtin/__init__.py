"""The data of built-in agents: sessions, model usage, documents."""
