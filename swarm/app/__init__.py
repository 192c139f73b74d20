"""The assembled application: start, stop, reload, backup."""
