"""Hosts, origins, time limits and caps of our servers, as an attacker sees them."""
