"""Language models: how each provider's is reached, what becomes of their errors, and what their use costs."""
