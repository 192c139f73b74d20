"""`swarm chat`: a built-in agent in a terminal.

Runs happen either in the coordinator of this home, over its AG-UI entry point, or in this process, with the agent built
on the same database (`swarm.cli.chat.opening`). Both have one protocol, `swarm.domain.answers.remote.AgentClient`, and
store sessions under the same ids, so that a session may go on with either. `conversation` is the interface at a
terminal, `single_question` the one for pipes.
"""
