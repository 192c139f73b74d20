"""The assistant: converses, remembers, and uses tools."""
