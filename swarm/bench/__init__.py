"""Load and latency measurements: ``swarm bench``.

A measurement uses the protocols of a real coordinator process, and generates the load itself, in a separate process.
Only `swarm.bench.inside` imports the system, since it measures parts that no protocol reaches.
"""
