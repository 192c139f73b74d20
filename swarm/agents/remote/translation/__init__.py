"""The translation of AG-UI's events into `swarm.domain.answers.events`.

`translator` translates texts and combines the other modules; `wire` reads one event of any version and has the common
helpers; `tools`, `progress` and `endings` each translate one kind of events.
"""
