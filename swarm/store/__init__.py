"""The database: the bridge to it, its tables, and one module of statements per aggregate."""
