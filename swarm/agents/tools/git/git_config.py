"""What a repository's own configuration may say. It can make git run programs, so that it is read before git obeys it.

Two locks on one door: `OVERRIDES` puts out of force what has one name, and whatever is not known to be harmless
(`HARMLESS`) stops the tool, because much of what runs programs has names of the repository's choice (``remote.*.vcs``,
``filter.*.clean``, ``merge.*.driver``, ``diff.*.textconv``) or comes with the next version of git.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from swarm.agents.tools.answers import ToolRefused

OVERRIDES: Final = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    "core.askPass": "",
    "core.editor": ":",
    "core.pager": "cat",
    "core.quotePath": "false",
    "color.ui": "false",
    "column.ui": "never",
    "commit.gpgSign": "false",
    "tag.gpgSign": "false",
    "push.gpgSign": "false",
    "log.showSignature": "false",
    "merge.verifySignatures": "false",
    "gpg.program": "false",
    "gpg.openpgp.program": "false",
    "gpg.x509.program": "false",
    "gpg.ssh.program": "false",
    "gpg.ssh.defaultKeyCommand": "false",
    "credential.helper": "",  # forgets those that were named before
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "push.recurseSubmodules": "no",
    "status.submoduleSummary": "false",
    "diff.submodule": "short",
    "diff.ignoreSubmodules": "dirty",  # a look into a submodule is a git that obeys the submodule's configuration
    "gc.auto": "0",
    "maintenance.auto": "false",
    "safe.bareRepository": "explicit",
}
"""What we tell git with every call, above all files."""

HARMLESS: Final = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"core\.(abbrev|autocrlf|bare|bigfilethreshold|checkstat|commentchar|commitgraph|compression|eol|excludesfile"
        r"|filemode|hookspath|ignorecase|logallrefupdates|longpaths|loosecompression|multipackindex|precomposeunicode"
        r"|preloadindex|protecthfs|protectntfs|quotepath|repositoryformatversion|safecrlf|sharedrepository|sparsecheckout"
        r"|sparsecheckoutcone|splitindex|symlinks|trustctime|untrackedcache|warnambiguousrefs|whitespace)",
        r"remote\..*\.(url|pushurl|fetch|tagopt|prune|prunetags|skipdefaultupdate|skipfetchall|promisor"
        r"|partialclonefilter|gh-resolved)",
        r"remote\.pushdefault",
        r"branch\..*\.(?!mergeoptions$)[a-z0-9-]+",
        r"branch\.(autosetupmerge|autosetuprebase|sort)",
        r"(user|author|committer)\.(name|email|useconfigonly)",
        r"user\.signingkey",
        r"push\.(default|autosetupremote|followtags|gpgsign|useforceifincludes)",
        r"pull\.(rebase|ff)",
        r"fetch\.(prune|prunetags|parallel|writecommitgraph|fsckobjects|showforcedupdates|unpacklimit|output)",
        r"merge\.(conflictstyle|ff|renames|renamelimit|directoryrenames|log|stat|autostash|branchdesc|tool|guitool)",
        r"diff\.(algorithm|colormoved|colormovedws|context|guitool|indentheuristic|interhunkcontext|mnemonicprefix"
        r"|noprefix|relative|renamelimit|renames|statgraphwidth|suppressblankempty|tool|wserrorhighlight)",
        r"rebase\.(autosquash|autostash|backend|forkpoint|stat|updaterefs)",
        r"status\.(aheadbehind|branch|relativepaths|renamelimit|renames|short|showstash|showuntrackedfiles)",
        r"log\.(abbrevcommit|date|decorate|follow|showroot)",
        r"(commit|tag)\.gpgsign",
        r"commit\.(cleanup|status|verbose)",
        r"stash\.(showincludeuntracked|showpatch|showstat)",
        r"submodule\..*\.(url|active|branch)",
        r"submodule\.active",
        r"extensions\.(compatobjectformat|objectformat|partialclone|preciousobjects|refstorage|relativeworktrees"
        r"|worktreeconfig)",
        r"http\.(.*\.)?(extraheader|postbuffer|version|lowspeedlimit|lowspeedtime)",
        r"credential\.(.*\.)?(username|usehttppath)",
        r"receive\.(deny[a-z]+|autogc|fsckobjects|shallowupdate|unpacklimit)",
        r"transfer\.(fsckobjects|hiderefs|unpacklimit)",
        r"rerere\.(enabled|autoupdate)",
        r"tag\.sort|init\.defaultbranch|protocol\.version|versionsort\.[a-z]+|i18n\.[a-z]+|feature\.[a-z]+",
        r"(advice|column|gc|index|maintenance|pack)\.[a-z]+",
        r"(alias|color|gui|lfs)\..*",  # of no use to the subcommands here, or to git at all
    )
)
"""Keys that make git run nothing and read or write nothing elsewhere, or that `OVERRIDES` puts out of force."""

_FALSE_OR_TRUE: Final = re.compile("true|false|yes|no|on|off|1|0|", re.IGNORECASE)
_LOCAL: Final = ("local", "worktree")
_SCOPES: Final = frozenset({*_LOCAL, "command", "global", "system"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """One line of a repository's configuration."""

    key: str  # section and name in lower case
    value: str


def settings_in(listing: str) -> Iterator[Setting]:
    """The repository's own settings from ``git config --list --show-scope --null``.

    Raises:
        Refused: It is not such a listing.
    """
    *fields, rest = listing.split("\0")
    if rest or len(fields) % 2 or not _SCOPES.issuperset(fields[::2]):
        raise ToolRefused("The repository's configuration cannot be read.")
    for scope, entry in zip(fields[::2], fields[1::2], strict=True):
        if scope in _LOCAL:
            key, _, value = entry.partition("\n")
            yield Setting(key=key, value=value)


def check(
    settings: Iterable[Setting], where: str, *, trusted: Sequence[str] = (), work_trees: Iterable[str] = ()
) -> None:
    """Refuse a repository that is configured to do more than keep files.

    Args:
        where: Which repository it is, in words.
        trusted: Patterns (fnmatch) of keys that the operator vouches for.
        work_trees: What ``core.worktree`` may be.

    Raises:
        Refused: The first key that is not known to be harmless.
    """
    for setting in settings:
        trusts = any(fnmatch.fnmatchcase(setting.key, pattern.lower()) for pattern in trusted)
        if not trusts and not _is_harmless(setting, work_trees):
            raise ToolRefused(
                f"git is not run here: the configuration of {where} sets {setting.key}, which could run a program or "
                "reach outside. Somebody has to remove it, or the operator to allow it."
            )


def _is_harmless(setting: Setting, work_trees: Iterable[str]) -> bool:
    if setting.key == "core.fsmonitor":
        return _FALSE_OR_TRUE.fullmatch(setting.value) is not None  # else it is a program
    if setting.key == "core.worktree":
        return setting.value in work_trees
    if re.fullmatch(r"remote\..*\.push", setting.key, re.DOTALL):
        return not setting.value.startswith(("+", ":", "-"))
    return any(pattern.fullmatch(setting.key) for pattern in HARMLESS)
