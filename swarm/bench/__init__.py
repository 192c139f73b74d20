"""Load and latency measurements: ``swarm bench``.

A measurement uses the protocols of a real ``swarm up`` process. The load, and the Slack twin, are in the measuring
process. Only `swarm.bench.inside` imports the system, since it measures parts that no protocol reaches.
"""
