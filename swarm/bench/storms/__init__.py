"""`swarm bench storm`: agents and coordinators are killed under load, and nothing may be lost or doubled."""
