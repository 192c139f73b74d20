"""The agents of the demo, each a process of its own."""
