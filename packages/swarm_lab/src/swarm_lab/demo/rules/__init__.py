"""Rules instead of a model: an HTTP server with a model's API, and the rules for its answers."""
