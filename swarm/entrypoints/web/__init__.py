"""What every HTTP server of ours has, whatever it serves: allowed hosts and origins, time limits, caps.

Nothing here knows the rest of swarm: the coordinator and the twin, which stands apart, both use it.
"""
