"""What swarm and its runner stand on: child processes, hidden secrets, forms of questions."""
