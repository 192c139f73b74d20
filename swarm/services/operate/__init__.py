"""For operators: agents, figures, explanations, and the jobs that run on a schedule."""
