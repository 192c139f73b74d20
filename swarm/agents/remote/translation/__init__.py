"""The translation of AG-UI's events into `swarm.domain.answers.events`.

`translator` combines the other modules; `wire` reads one event of any version; `texts`, `tools`, `progress` and
`endings` each translate one kind of events. `values` has their common helpers.
"""
