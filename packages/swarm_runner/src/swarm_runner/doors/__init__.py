"""The kinds of CLIs, one module each. `swarm_runner.settings.door_of` chooses the door of a provider."""
