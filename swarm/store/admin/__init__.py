"""The database as a whole: migrations, preparation at the start, backups, health."""
