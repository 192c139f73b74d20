"""Measurements of load and latency: ``swarm bench``.

A measurement uses the protocols of a real ``swarm up`` process. The measuring process generates the load and runs the
Slack twin. Only `swarm_lab.bench.loop.inside` imports the system, since it measures parts that no protocol reaches.
"""
