"""What the operator allows: access, channels, decisions, escalations, the team."""
