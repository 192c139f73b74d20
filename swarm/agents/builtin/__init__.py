"""What all built-in agents have in common: how a run begins, is limited, is remembered, and ends."""
