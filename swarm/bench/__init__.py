"""Load and latency measurements: ``swarm bench``.

A measurement speaks protocols to a real coordinator process and is itself the load generator, in a process of its own.
Only `swarm.bench.inside` imports the system, since it measures parts that no protocol reaches.
"""
