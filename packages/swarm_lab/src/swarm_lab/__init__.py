"""Demo, benchmarks and conformance tests of swarm."""
