"""Measurements from inside: the store alone, which no protocol reaches."""
