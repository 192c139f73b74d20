"""Services for operators: agents, figures, explanations, and scheduled jobs."""
