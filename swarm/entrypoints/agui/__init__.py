"""AG-UI: built-in agents for web pages, terminals and other coordinators."""
