"""Administration of the database: migrations, preparation at startup, backups and health."""
