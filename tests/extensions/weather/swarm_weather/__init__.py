"""An agent that tells the weather: an extension of swarm, by somebody else."""
