"""Live answers: what an agent says while it says it, as calls of Slack.

`reducer` is the whole of it, a pure function; `events` is what goes in from the agent, `calls` what comes out for
Slack. The rest are its parts: `text` (incremental safe text), `pages` (what fits into one message), `words`.
"""
