"""The database: bridge, tables, and one module or folder an aggregate."""
