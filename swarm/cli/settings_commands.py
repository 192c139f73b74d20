"""The commands ``swarm config``, which shows the settings and their sources, and ``swarm import``, which makes settings
from those of other systems."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

from cyclopts import App, Parameter
from rich.table import Column, Table

from swarm.cli.terminal import Terminal
from swarm.config import CONFIG_FILE, explaining, read
from swarm.config.importing import files
from swarm.config.importing.translation import Fate, Translation
from swarm.domain.slack_check import sentences
from swarm_base.characters import line_for_terminal

config = App(name="config", help="Show the settings.")
imports = App(name="import", help="Write swarm.yaml from the settings of another system.")

_LONGEST: Final = 100
_OUTPUT: Final = Path(CONFIG_FILE)
_Force = Annotated[bool, Parameter(negative=(), show_default=False)]
_Output = Annotated[Path, Parameter(name=["--output", "-o"])]
_Env = Annotated[Path | None, Parameter(name="--env")]

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
    from swarm.app import slack_check  # Slack's SDK takes a while to load

    reading = read()
    found = explaining.explain(reading, channel)
    notes = explaining.notes(reading, channel)
    mistakes = sentences(asyncio.run(slack_check.ask(reading.settings, channel)))
    if as_json:
        left = [{"source": note.source, "target": note.target or None, "remark": note.remark} for note in notes]
        shown = {"channel": channel, "settings": [*map(asdict, found)], "notes": left, "mistakes": mistakes}
        sys.stdout.write(json.dumps(shown) + "\n")
        return
    table = Table(Column("setting", no_wrap=True), Column("value", overflow="fold"), Column("source", overflow="fold"))
    for one in found:
        table.add_row(one.key, _shortened(explaining.in_one_line(one.value)), one.source)
    _out.print(table)
    for line in (*map(str, notes), *mistakes):
        _out.print(line_for_terminal(line), soft_wrap=True)


def _shortened(value: str) -> str:
    line = line_for_terminal(value)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


@imports.command
def caipe(file: Path, *, output: _Output = _OUTPUT, env: _Env = None, force: _Force = False) -> None:
    """Import the configuration of CAIPE's Slack bot: SLACK_INTEGRATION_BOT_CONFIG, or a Helm chart's values.

    CAIPE's variables are taken from the environment and ./.env, too.

    Parameters
    ----------
    file
        The YAML file with the channels, of CAIPE before or since 0.4.
    output
        The file to write.
    env
        A file with the variables of CAIPE's bot.
    force
        Replace an existing file.
    """
    _write(files.from_caipe, file, output, env, force=force)


@imports.command(name="servers-config")
def servers_config(file: Path, *, output: _Output = _OUTPUT, env: _Env = None, force: _Force = False) -> None:
    """Import an MCP Slack bot with a servers_config.json. The file itself stays where it is, and is used from there.

    Parameters
    ----------
    file
        The file with the MCP servers.
    output
        The file to write.
    env
        The bot's .env, with its model.
    force
        Replace an existing file.
    """
    _write(files.from_servers_config, file, output, env, force=force)


@imports.command
def yui(file: Path, *, output: _Output = _OUTPUT, env: _Env = None, force: _Force = False) -> None:
    """Import Yui's config.yaml, with the system prompt from its workspace.

    Parameters
    ----------
    file
        Yui's configuration, usually ~/.yui/config.yaml.
    output
        The file to write. The prompt and the MCP servers become files beside it.
    env
        Yui's .env.
    force
        Replace existing files.
    """
    _write(files.from_yui, file, output, env, force=force)


def _write(
    translate: Callable[[Path, Path, Mapping[str, str]], files.Imported],
    file: Path,
    output: Path,
    env: Path | None,
    *,
    force: bool,
) -> None:
    files.refuse_existing([output], force=force)
    imported = translate(file, output, files.variables_of(env))
    files.write(imported, output, force=force)
    for note in imported.translation.notes:
        _out.print(line_for_terminal(str(note)), soft_wrap=True)
    _out.print(_summary(imported.translation, [output, *imported.beside]), soft_wrap=True, style="bold")
    if env and env.resolve() != Path(".env").resolve():
        _out.print(f"swarm does not read {env}: copy the variables that it needs into ./.env.", soft_wrap=True)


def _summary(done: Translation, written: list[Path]) -> str:
    count = Counter(note.fate for note in done.notes)
    became = ", ".join(f"{count[fate]} {fate}" for fate in Fate)
    return f"{' and '.join(map(str, written))}: {became}."
