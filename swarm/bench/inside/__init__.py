"""Measurements within this process, of parts that no protocol reaches: the store alone."""
