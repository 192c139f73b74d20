"""Remote agents over AG-UI: requests, events, credentials, and what their answers mean."""
