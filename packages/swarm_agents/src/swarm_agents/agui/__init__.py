"""The AG-UI entry point: built-in agents for web pages, terminals and other coordinators."""
