"""Data of built-in agents: sessions, model usage and documents."""
