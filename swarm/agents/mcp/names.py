"""What tools of MCP servers are called when a model is told of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from hashlib import sha256
from typing import Final

from swarm.agents.mcp.server import McpServer

LONGEST_NAME: Final = 64

_VALID: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{LONGEST_NAME}}}")
_INVALID: Final = re.compile(r"[^A-Za-z0-9_-]+")
_HASH_CHARACTERS: Final = 8


class OfferedNames:
    """The names under which allowed tools are offered, each its own for as long as this lives.

    That is the tool's own name where no other server's tool has it and models take it, else the server's with it. For
    tools that are allowed server by server it depends on nothing else: a server that comes or goes renames no tool of
    another. Of a list that goes for all servers, nobody knows beforehand which of them has a tool; there the first one
    that is asked for keeps the tool's own name. None of ``reserved`` is given.
    """

    def __init__(self, servers: Sequence[McpServer], reserved: Collection[str] = ()) -> None:
        keys = [(server.name, tool) for server in servers if not server.shares_list for tool in server.allowed]
        counts = Counter(tool for _, tool in keys)
        self._names = {key: key[1] for key in keys if counts[key[1]] == 1 and _is_free(key[1], reserved)}
        self._taken = {*reserved, *self._names.values()}
        for key in keys:
            if key not in self._names:
                self._give(key, _free(key, self._taken))

    def of(self, server: str, tool: str) -> str:
        """The name of a server's tool."""
        key = (server, tool)
        if key not in self._names:
            self._give(key, tool if _is_free(tool, self._taken) else _free(key, self._taken))
        return self._names[key]

    def _give(self, key: tuple[str, str], name: str) -> None:
        self._names[key] = name
        self._taken.add(name)


def _is_free(tool: str, taken: Collection[str]) -> bool:
    return bool(_VALID.fullmatch(tool)) and tool not in taken


def _free(key: tuple[str, str], taken: Collection[str]) -> str:
    """The server's name and the tool's, cleaned up; if somebody has that already, marked by a hash of both."""
    plain = "_".join(_INVALID.sub("_", part).strip("_") or "x" for part in key)
    if plain not in taken and len(plain) <= LONGEST_NAME:
        return plain
    mark = sha256("\0".join(key).encode(errors="surrogatepass")).hexdigest()
    kept = plain[: LONGEST_NAME - _HASH_CHARACTERS - 1]
    choices = (f"{kept}_{mark[at : at + _HASH_CHARACTERS]}" for at in range(len(mark) - _HASH_CHARACTERS))
    return next(name for name in choices if name not in taken)
