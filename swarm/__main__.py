"""``python -m swarm`` is the command ``swarm``."""

from swarm.cli import main

if __name__ == "__main__":
    main()
