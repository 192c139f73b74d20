"""Language models: the access to each provider, its errors, and the costs of use."""
