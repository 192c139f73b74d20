"""A thin door to the conformance suite: ``python tests/simulate_slack_stream.py --suite --agent URL``.

It is `swarm conformance`, with the same options and exit codes; see tests/STREAMING_CONFORMANCE.md.
"""

from __future__ import annotations

import sys

from swarm.cli.main import main

if __name__ == "__main__":
    sys.argv.insert(1, "conformance")
    main()
