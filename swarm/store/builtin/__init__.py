"""What built-in agents store: sessions, the use of models, documents."""
