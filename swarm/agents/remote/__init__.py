"""Remote agents over AG-UI: requests, credentials, events, and the meaning of their answers."""
