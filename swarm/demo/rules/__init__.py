"""Rules in place of a model: an HTTP server with the API of a model, and its answers."""
