"""The command ``swarm import``: settings of other systems become a ``swarm.yaml``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from swarm.cli.terminal import Terminal
from swarm.config import CONFIG_FILE
from swarm.config.importing import files
from swarm.config.importing.translation import Fate, Translation
from swarm.domain.text.characters import line_for_terminal

imports = App(name="import", help="Write swarm.yaml from the settings of another system.")

_out = Terminal()
_Force = Annotated[bool, Parameter(negative=(), show_default=False)]
_Output = Annotated[Path, Parameter(name=["--output", "-o"])]
_Env = Annotated[Path | None, Parameter(name="--env")]
_OUTPUT = Path(CONFIG_FILE)


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


def _summary(done: Translation, written: list[Path]) -> str:
    count = Counter(note.fate for note in done.notes)
    became = ", ".join(f"{count[fate]} {fate}" for fate in Fate)
    return f"{' and '.join(map(str, written))}: {became}."
