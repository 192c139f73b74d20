"""The commands ``swarm requests``, ``swarm grants`` and ``swarm audit``: who asked people for what, and who decided."""

from __future__ import annotations

import json
from typing import Annotated, Any

from cyclopts import App, Parameter
from rich.table import Column, Table

from swarm.cli.operator_commands import operate
from swarm.cli.terminal import Terminal, write_json_lines
from swarm.domain.errors import Invalid
from swarm.domain.model.requests import DecisionPolicy, FileDiff, HumanDecision, RequestStatus, ToolRequest
from swarm.domain.policy.decision_rules import deciders_text
from swarm.domain.requests.shown import Reader, operator_text
from swarm.domain.text.unique_keys import read_json
from swarm_base.characters import line_for_terminal

requests = App(name="requests", help="Show what agents ask people, and decide.")
grants = App(name="grants", help="Show and revoke permissions that people have given in advance.")

_out = Terminal()


@requests.command(name="list")
def _list_requests(*, status: RequestStatus | None = None, limit: int = 20) -> None:
    """Show the newest requests, and who asks.

    Parameters
    ----------
    status
        Only requests in this state; `open` ones wait for a decision.
    limit
        The maximum number of requests to show.
    """
    query = {"limit": limit, "status": status and status.value}
    table = Table(Column("id", no_wrap=True), "asks", "question", Column("status", no_wrap=True), "expires")
    for request in operate("GET", "/requests", params=query)["requests"]:
        expires = request["expires_at"] if request["status"] == "open" else None
        table.add_row(
            request["id"], request["agent"], line_for_terminal(request["title"]), request["status"], expires or "-"
        )
    _out.print_rows(table, "There is no request.", below={"id": "question"})


@requests.command(name="show")
def _show_request(request_id: str) -> None:
    """Show one request: the question, its form, who may decide, and who did."""
    request = operate("GET", f"/requests/{request_id}")
    _out.print(f"{line_for_terminal(request['title'])}: {request['status']}", style="bold")
    for name in ("id", "agent", "created_at", "expires_at", "ended_at", "reason", "resume"):
        if request[name] not in (None, "", "none"):
            _out.print(f"  {name}: {line_for_terminal(str(request[name]))}")
    _out.print(f"  may decide: {_policy(request)}")
    _out.print(f"  decisions: {', '.join(request['decisions'])}")
    if request["prompt"]:
        _out.print(f"\n{Reader(hides=False).text(request['prompt'])}", soft_wrap=True)
    if request["tool"]:
        tool = request["tool"]
        diffs = tuple(FileDiff(**diff) for diff in tool["diffs"])
        call = ToolRequest(
            name=tool["name"], arguments=tool["arguments"], diffs=diffs, locations=tuple(tool["locations"])
        )
        _out.print(f"\n{operator_text(call)}\ndigest {tool['digest']}", soft_wrap=True)
    for field in request["fields"]:
        choices = f", one of {', '.join(option['value'] for option in field['options'])}" if field["options"] else ""
        needed = ", required" if field["required"] else ""
        _out.print(f"  {field['name']} ({field['type']}{needed}{choices}): {line_for_terminal(field['label'])}")
    for answer in request["answers"]:
        _out.print(f"\n{answer['at']}  {answer['decision']} by {answer['person']} ({answer['door']})")
        for name in ("values", "arguments"):
            if answer[name] is not None:
                _out.print(f"  {name}: {json.dumps(answer[name], ensure_ascii=False)}", soft_wrap=True)


@requests.command(name="decide")
def _decide(
    request_id: str,
    decision: HumanDecision,
    *,
    value: Annotated[list[str] | None, Parameter(negative=())] = None,
    arguments: str | None = None,
    as_: Annotated[str | None, Parameter(name="--as")] = None,
) -> None:
    """Decide on a request as the operator, or as a person.

    Parameters
    ----------
    request_id
        From `swarm requests list`.
    decision
        One of the decisions that the request allows.
    value
        A value of the form as NAME=VALUE; may be given several times. VALUE may be JSON.
    arguments
        With `edit`: all arguments of the tool call, as a JSON object.
    as_
        A Slack user id. The person decides, if the request's policy allows it.
    """
    body: dict[str, Any] = {"decision": decision.value, "door": "cli"}
    if value:
        body["values"] = dict(_pair(one) for one in value)
    if arguments is not None:
        body["arguments"] = _object(arguments)
    if as_:
        body["as"] = as_
    request = operate("POST", f"/requests/{request_id}/decide", json=body)
    _out.print(f"“{line_for_terminal(request['title'])}” is {request['status']}.")


@grants.command(name="list")
def _list_grants() -> None:
    """Show the valid permissions, whose work they cover, who gave them, and how often they were used."""
    columns = (
        Column("id", no_wrap=True),
        "agent",
        Column("tool", no_wrap=True),
        "scope",
        Column("covers", no_wrap=True),
        "given by",
    )
    table = Table(*columns, "expires", "uses")
    for grant in operate("GET", "/grants")["grants"]:
        table.add_row(
            grant["id"], grant["agent"], line_for_terminal(grant["tool"]), grant["scope"], grant["covers"],
            grant["given_by"], grant["expires_at"] or "never", str(grant["uses"]),
        )  # fmt: skip
    _out.print_rows(table, "No permission is given in advance.", below={"id": "tool"})


@grants.command(name="revoke")
def _revoke_grant(grant_id: str) -> None:
    """End a permission. Later calls of the tool ask people again."""
    operate("DELETE", f"/grants/{grant_id}")
    _out.print(f"The grant {grant_id} is revoked.")


def audit(
    *, since: str | None = None, limit: int = 500, as_json: Annotated[bool, Parameter(name="--json")] = False
) -> None:
    """Show who asked for what, who decided from where, and what came of it, oldest first.

    Parameters
    ----------
    since
        A time in ISO 8601; by default everything that is kept.
    limit
        The maximum number of lines; with --json all lines are written.
    as_json
        Write JSON lines, for other programs.
    """
    after, left = 0, limit
    page = {"since": since or None, "limit": 500 if as_json else min(limit, 500)}
    while lines := operate("GET", "/audit", params={**page, "after": after})["audit"]:
        after = lines[-1]["seq"]
        if as_json:
            write_json_lines(lines)
            continue
        for line in lines[:left]:
            _out.print(line_for_terminal(_sentence(line)), soft_wrap=True)
        left -= len(lines)
        if left <= 0:
            return


def _sentence(line: dict[str, Any]) -> str:
    about = " ".join(str(line[name]) for name in ("person", "agent", "tool", "request") if line[name])
    return f"{line['at']}  {line['kind']}  {about}: {line['outcome']}"


def _policy(request: dict[str, Any]) -> str:
    policy, requesters = DecisionPolicy(**request["policy"]), [one["id"] for one in request["requesters"]]
    people = deciders_text(policy, requesters, str, "the group {}".format)
    need = f"; needs {policy.need} approvals" if policy.need > 1 else ""
    veto = "; one rejection ends it" if policy.veto else ""
    return f"{people}{'' if people == 'the operator' else ' or the operator'}{need}{veto}"


def _pair(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise Invalid(f"'{text}' is not NAME=VALUE.", hint="For example --value part=code.")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def _object(text: str) -> dict[str, Any]:
    try:
        found = read_json(text)
    except ValueError as error:
        raise Invalid(f"The arguments are not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise Invalid("The arguments are not a JSON object.")
    return found
