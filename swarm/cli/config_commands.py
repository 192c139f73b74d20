"""The command ``swarm config``: the settings in force, and their sources."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated, Final

from cyclopts import App, Parameter
from rich.table import Column, Table

from swarm.cli.terminal import Terminal
from swarm.config import explaining, read
from swarm.domain.text.characters import line_for_terminal

config = App(name="config", help="Show the settings.")

_LONGEST: Final = 100
_out = Terminal()


@config.command
def explain(channel: str, *, as_json: Annotated[bool, Parameter(name="--json", negative=())] = False) -> None:
    """Show the effective settings of a channel, and where each value comes from.

    The settings are read as `swarm up` would read them here and now.

    Parameters
    ----------
    channel
        A channel's id, C0123456789, or `dm` for direct messages. Channels without settings have the defaults.
    as_json
        Print JSON, with long values in full.
    """
    reading = read()
    found = explaining.explain(reading, channel)
    notes = explaining.notes(reading, channel)
    if as_json:
        left = [{"source": note.source, "target": note.target or None, "remark": note.remark} for note in notes]
        sys.stdout.write(json.dumps({"channel": channel, "settings": [*map(asdict, found)], "notes": left}) + "\n")
        return
    table = Table(Column("setting", no_wrap=True), Column("value", overflow="fold"), Column("source", overflow="fold"))
    for one in found:
        table.add_row(one.key, _shortened(explaining.in_one_line(one.value)), one.source)
    _out.print(table)
    for note in notes:
        _out.print(line_for_terminal(str(note)), soft_wrap=True)


def _shortened(value: str) -> str:
    line = line_for_terminal(value)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
