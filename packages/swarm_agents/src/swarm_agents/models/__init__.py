"""Language models: access to each provider, its errors, and the cost of its use."""
