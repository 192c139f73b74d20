"""What built-in agents need: runs, sessions, the use of models, documents."""
