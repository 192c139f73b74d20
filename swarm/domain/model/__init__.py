"""The entities and their statuses."""
