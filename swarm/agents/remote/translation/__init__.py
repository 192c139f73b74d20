"""AG-UI's events in our words: what an agent's stream says, as `swarm.domain.answers.events`.

`translator` puts the others together; `wire` reads one event of any version; `texts`, `tools`, `progress` and `endings`
each translate one kind of events. `values` has their common helpers.
"""
