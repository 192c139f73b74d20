"""Live answers: the events of an agent's run, turned into Slack calls while the run goes on.

`reducer` is the entry point, a pure function. `events` holds its input from the agent, `calls` its output to Slack. The
other modules are parts of the reducer: `agent_events` and `slack_results` take input, `sending` chooses the next call,
`state` holds the state, `text` makes growing text safe, `wording` has the sentences.
"""
