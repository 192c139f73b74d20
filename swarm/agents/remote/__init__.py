"""Remote agents over AG-UI: requests, credentials, events, and the interpretation of answers."""
