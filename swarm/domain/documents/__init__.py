"""Searchable documents, without any I/O."""
