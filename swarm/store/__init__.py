"""The database: connections, tables, and one module or package per aggregate."""
