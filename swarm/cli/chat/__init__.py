"""`swarm chat`: a built-in agent in a terminal.

What runs the turns is either the coordinator of this home, over its AG-UI door, or the agent itself, put together in
this process on the same database (`swarm.cli.chat.opening`). Both have one protocol,
`swarm.domain.answers.agents.RunsTurns`, and remember under the same session ids, so that a session may go on with
either. `conversation` is the terminal's side of it, `once` that of pipes.
"""
