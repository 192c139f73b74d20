"""AG-UI's events in our words: what an agent's stream says, as `swarm.domain.answers.events`.

`translator` is the whole of it; `wire` reads one event however old its shape; the others each know one kind of them:
`texts`, `tools`, `plans` (with `todos`), `sources`, `steps`, `endings` (with `questions`). `values` is what they share.
"""
