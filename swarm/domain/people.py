"""Who somebody is: a member of our workspace or of its organisation, a guest, or a stranger.

Fails closed: who is not known to be a member is none. The event itself shows people of other workspaces, as long as
ours belongs to no Enterprise Grid organisation; in one, only ``users.info`` tells a colleague of a sister workspace
from a stranger. Guests are told by ``users.info`` alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from swarm.domain.model.transcript import Author, AuthorKind, Standing
from swarm.domain.routing import Me


@dataclass(frozen=True, kw_only=True, slots=True)
class Person:
    """A user as ``users.info`` describes them."""

    id: str
    name: str  # the display name; the id where there is none
    email: str | None = None  # needs the scope users:read.email
    teams: tuple[str, ...] = ()  # workspaces and organisation that they belong to
    is_guest: bool = False
    is_stranger: bool = False  # Slack says so: known through a shared channel only
    is_known: bool = True  # False: Slack has no such user, shows none to us, or the account is deactivated


def standing_by_event(author: Author, me: Me) -> Standing | None:
    """What needs no question to Slack. None: it has to be asked. Bots are judged by the channels' lists alone."""
    if author.kind is not AuthorKind.USER:
        return Standing.MEMBER
    is_foreign = bool(set(author.teams) - me.homes)
    return Standing.EXTERNAL if is_foreign and not me.enterprise else None


def standing_of(person: Person, me: Me) -> Standing:
    """How somebody stands to our workspace by Slack's answer."""
    if not person.is_known or not person.teams:
        return Standing.UNVERIFIED
    if person.is_stranger or not me.homes & set(person.teams):
        return Standing.EXTERNAL
    return Standing.GUEST if person.is_guest else Standing.MEMBER
