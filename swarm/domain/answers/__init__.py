"""Live answers: turns the events of an agent's run into Slack calls during the run.

`reducer` is the entry point, a pure function. `events` holds its input from the agent, `calls` its output to Slack. The
other modules are parts of the reducer: `agent_events` and `slack_results` process input, `sending` chooses the next
call, `state` holds the state, `text` makes partial text safe, `wording` contains the sentences.
"""
