"""Translates AG-UI's events into `swarm.domain.answers.events`.

`translator` translates texts and combines the other modules. `wire` reads an event of any version and contains the
shared helpers. `tools`, `progress` and `endings` each translate one kind of event.
"""
