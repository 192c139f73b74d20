"""Models over their providers' wire protocols, spoken by servers on this machine."""
