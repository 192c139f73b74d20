"""The names of tools that askers may give, and the rules that bind them however they are spelt."""

from __future__ import annotations

import pytest

from swarm.domain.errors import Invalid
from swarm.domain.model.requests import NewRequest, ToolRequest
from swarm.domain.policy.decision_rules import DecisionRule, check_new
from tests.support.every import every

pytestmark = pytest.mark.req("HITL-11")


@every(
    "name",
    ["deploy", "Deploy", " deploy ", "git push", "Bash(git push:*)", "mcp__shop__buy", "déploy", "развернуть", "工具",
     "ツール", "डिप्लॉय", "x" * 100],
)  # fmt: skip
def test_names_of_one_script_are_asked_about(name: str) -> None:
    check_new(NewRequest(key="k", title="t", tool=ToolRequest(name=name)))


@every(
    ("name", "reason"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("x" * 101, "at most 100"),
        ("dep\u200bloy", "invisible"),
        ("deploy\u2060", "invisible"),
        ("deploy\u034f", "invisible"),
        ("deploy\ufe0f", "invisible"),
        ("de\u202eploy", "invisible"),
        ("deploy\n", "invisible"),
        ("\tdeploy", "invisible"),
        ("git\u00a0push", "invisible"),
        ("git\u3164push", "invisible"),
        ("dep\0loy", "invisible"),
        ("deploy\ud800", "invisible"),
        ("ｄeploy", "NFKC"),
        ("deploy\u0301", "NFKC"),
        ("git\u2011push", "NFKC"),
        ("ﬁle", "NFKC"),
        ("git\u2010push", "hyphen"),
        ("ɡit", "script g"),
        ("gıt", "dotless i"),
        ("dеploy", "cyrillic and latin"),
        ("dеplοy", "cyrillic and greek and latin"),
        ("deploy工", "cjk and latin"),
        ("ԁерӏоу", "look like a Latin one"),
        ("сору", "look like a Latin one"),
        ("ꓓꓰꓑ", "lisu"),
        ("ᗪᗴᑭᒪᗝᖻ", "canadian"),
        ("𐌀𐌃𐌃", "old italic"),
        ("dep٥oy", "arabic and latin"),
    ],
)
def test_a_name_that_could_be_misread_is_refused_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_new(NewRequest(key="k", title="t", tool=ToolRequest(name=name)))
    assert reason in refused.value.fields["tool.name"]


@every("pattern", ["deploy", "Deploy ", "DEP*", "d?ploy", "[D]eploy"])
@every("name", ["deploy", "Deploy", "DEPLOY", "deploy ", " Deploy"])
def test_a_rule_binds_a_tool_however_it_is_spelt(name: str, pattern: str) -> None:
    rule = DecisionRule(users=("U9",), agent="Lea", tool=pattern)
    assert rule.applies("lea", None, name)
    assert not rule.applies("lea", None, "undeploy")
    assert not rule.applies("lea", None, None), "a call that names no tool is bound by a rule without a tool"


def test_a_rule_binds_a_tool_however_many_blanks_its_name_has() -> None:
    rule = DecisionRule(users=("U9",), tool="git push*")
    assert rule.applies("lea", None, "git  Push   --force")
    assert not rule.applies("lea", None, "gitpush")
