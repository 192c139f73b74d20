"""The built-in agents put together from the settings, and opened as the coordinator and the commands need them."""
