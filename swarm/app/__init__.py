"""The application put together: start, stop, reload, backup."""
