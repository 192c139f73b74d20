"""What the end of a turn means, how failures in a row pause a runner, and what a CLI gets of the machine."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from swarm.domain.errors import ConfigurationError
from swarm_runner.coordinator import Refused
from swarm_runner.endings import (
    NOT_REPORTED,
    NOTHING,
    Answered,
    Ending,
    NotDone,
    Over,
    _reset_in,
    ending_of,
    failed_of,
    is_no_answer,
)
from swarm_runner.environment import check_trust, cli_environment, fallback, unbound
from swarm_runner.home import Keys, RunnerHome
from swarm_runner.port import StepShown, ToolState, TurnEnded, TurnOutcome
from swarm_runner.sessions import KeptSession, Sessions
from swarm_runner.settings import RunnerSettings, door_of
from swarm_runner.watch import Breaker, SilenceWatch
from tests.support.every import every

DONE, FAILED, REFUSED = TurnOutcome.DONE, TurnOutcome.FAILED, TurnOutcome.REFUSED


def result(text: str) -> str:
    return f"{text}\n\n{NOT_REPORTED}"


ENDINGS: dict[str, tuple[TurnEnded, str, bool, Ending]] = {
    "streamed text": (TurnEnded(outcome=DONE), "42", False, Answered(result=result("42"))),
    "final text only": (TurnEnded(outcome=DONE, text="42"), "", False, Answered(rest="42", result=result("42"))),
    "final text repeats": (TurnEnded(outcome=DONE, text="42"), "So: 42", False, Answered(result=result("So: 42"))),
    "final text adds": (
        TurnEnded(outcome=DONE, text="42"),
        "Let me see.",
        False,
        Answered(rest="\n\n42", result=result("Let me see.\n\n42")),
    ),
    "settled by a tool": (TurnEnded(outcome=DONE, text="I did it."), "", True, Over()),
    "settled, then died": (TurnEnded(outcome=FAILED, reason="killed"), "", True, Over()),
    "ended early by the CLI": (
        TurnEnded(outcome=TurnOutcome.CANCELLED),
        "half",
        False,
        NotDone(reason="the agent ended its turn before it was done"),
    ),
    "ended early after a refusal": (
        TurnEnded(outcome=TurnOutcome.CANCELLED, refused_tools=("execute",)),
        "half",
        False,
        NotDone(reason="people refused what it needed (execute)"),
    ),
    "nothing": (TurnEnded(outcome=DONE), " \n", False, NotDone(reason=NOTHING)),
    "died with a reason": (TurnEnded(outcome=FAILED, reason="killed"), "half", False, NotDone(reason="killed")),
    "died without": (
        TurnEnded(outcome=FAILED),
        "",
        False,
        NotDone(reason="the agent's program ended without a result"),
    ),
    "refused tools": (
        TurnEnded(outcome=DONE, text="Could not.", refused_tools=("Bash", "Edit")),
        "",
        False,
        NotDone(reason="people refused what it needed (Bash, Edit)", rest="Could not."),
    ),
    "refused by the CLI": (TurnEnded(outcome=REFUSED), "", False, NotDone(reason="the agent refused")),
}


@pytest.mark.req("RUN-04", "RUN-05")
@every("name", ENDINGS)
def test_the_end_of_a_turn_settles_the_work(name: str) -> None:
    turn, shown, is_settled, ending = ENDINGS[name]
    assert ending_of(turn, shown=shown, is_settled=is_settled) == ending


@pytest.mark.req("RUN-08")
@every(
    "text",
    [
        "You've hit your limit · resets 3pm (Europe/Berlin)",
        "5-hour limit reached ∙ resets 7am",
        "Claude AI usage limit reached|1764262800",
        "You've hit your usage limit. Upgrade to Pro or try again in 3 hours 5 minutes.",
        "Credit balance is too low",
        "Invalid API key · Please run /login",
        "You exceeded your current quota, please check your plan and billing details.",
        "Prompt is too long",
        'API Error: 529 {"type":"overloaded_error"}',
        "exceeded retry limit, last status: 429 Too Many Requests",
        "We're currently experiencing high demand, which may cause temporary errors.",
        "Half of an answer\n\nstream disconnected before completion: Transport error: network error",
        '{"error": {"message": "Invalid value for \'messages\'.", "type": "invalid_request_error"}}',
    ],
)
def test_what_a_cli_says_in_place_of_an_answer(text: str) -> None:
    assert is_no_answer(text)
    assert not is_no_answer(text + " And this is what I have found out about it." * 10)


@pytest.mark.req("RUN-08")
@every("text", ["The limit of the loop is 5.", "I log in first, then I read the prompt.", "", "It is out of stock."])
def test_an_answer_is_an_answer(text: str) -> None:
    assert not is_no_answer(text)


@pytest.mark.req("RUN-08")
@every(
    ("text", "told"),
    [
        ("limit reached|1764262800", "2025-11-27T17:00"),
        ("hit your limit · resets 3pm (UTC)", "2025-11-27T15:01"),
        ("hit your limit · resets 9am (UTC)", "2025-11-28T09:01"),
        ("hit your limit. Try again at 12:00 PM (UTC).", "2025-11-27T12:01"),
        ("weekly limit reached ∙ resets Nov 29, 12:30am (UTC)", "2025-11-29T00:31"),
        ("usage limit. Try again at Dec 1st, 2025 3:05 PM (UTC).", "2025-12-01T15:06"),
        ("usage limit. Try again in 1 day 3 hours 5 minutes.", "2025-11-28T15:05"),
        ("limit reached, resets in 2h 30m", "2025-11-27T14:30"),
        ("limit reached, resets at 3pm (Mars/Olympus)", None),
        ("limit reached, resets Xyz 3, 3pm", None),
        ("limit reached", None),
    ],
)
def test_when_a_limit_ends(text: str, told: str | None) -> None:
    now = datetime(2025, 11, 27, 12, 0, tzinfo=UTC)
    found = _reset_in(text, now)
    assert (None if found is None else f"{datetime.fromtimestamp(found, UTC):%Y-%m-%dT%H:%M}") == told


@pytest.mark.req("RUN-08")
def test_a_time_that_is_past_or_far_away_is_no_reset() -> None:
    assert failed_of("limit reached, resets in 2h").resets_at
    assert failed_of("limit reached, resets in 30 days").resets_at is None
    assert failed_of("limit reached", resets_at=12.0).resets_at is None
    assert failed_of("the model is away, try again in 2h").resets_at is None


@pytest.mark.req("RUN-02")
async def test_three_failures_in_a_row_pause_the_runner_for_a_growing_time_and_a_success_ends_that() -> None:
    breaker = Breaker(60)
    for failed in (True, True, False, True, True):
        breaker.record(failed=failed)
        assert breaker.pause_seconds == 0
    pauses = []
    for _ in range(6):
        breaker.record(failed=True)
        pauses.append(round(breaker.pause_seconds))
    assert pauses == [60, 120, 240, 480, 900, 900]
    breaker.record(failed=False)
    assert breaker.pause_seconds == 0


@pytest.mark.req("RUN-02", "RUN-05")
async def test_no_silence_is_measured_while_people_decide() -> None:
    shown: list[StepShown] = []
    watch = SilenceWatch(0.01, 0.02, shown.append)
    watch.hold(1)
    watching = asyncio.create_task(watch.watch())
    done, _ = await asyncio.wait({watching}, timeout=0.2)
    assert (done, shown) == (set(), [])
    watch.hold(0)
    await asyncio.wait_for(watching, 5)
    assert [step.state for step in shown] == [ToolState.IN_PROGRESS, ToolState.ERROR]


@pytest.mark.req("RUN-02")
@pytest.mark.parametrize(("after", "limit"), [(180.0, 0.01), (0.01, 0.01), (0.01, 0.02)])
async def test_a_run_without_output_ends_at_its_limit_also_before_people_are_told(after: float, limit: float) -> None:
    shown: list[StepShown] = []
    await asyncio.wait_for(SilenceWatch(after, limit, shown.append).watch(), 5)
    assert [step.state for step in shown] == [ToolState.IN_PROGRESS, ToolState.ERROR]


@pytest.mark.req("RUN-02")
def test_people_are_told_of_silence_after_the_time_that_the_guide_names(tmp_path: Path) -> None:
    settings = RunnerSettings(name="wim", provider="claude", home=tmp_path, url="http://127.0.0.1:9")
    guide = (Path(__file__).parents[3] / "docs" / "coding-agents.md").read_text(encoding="utf-8")
    assert f"| no output for {settings.silence_seconds / 60:g} minutes | a step" in guide
    assert settings.silence_limit_seconds is None


@pytest.mark.req("SEC-07")
def test_a_cli_gets_the_usual_variables_and_the_named_ones() -> None:
    own = {"HOME": "/home/ann", "PATH": "/bin", "SWARM_TOKEN": "t", "KEY": "k", "OTHER": "o"}
    assert cli_environment(own, ["KEY"]) == {"HOME": "/home/ann", "PATH": "/bin", "KEY": "k"}
    with pytest.raises(ConfigurationError, match="NOPE"):
        cli_environment(own, ["NOPE"])


@pytest.mark.req("RUN-08")
def test_who_takes_over_at_a_limit_gets_variables_of_its_own() -> None:
    own = {"HOME": os.environ["HOME"], "KEY": "k-2"}
    assert fallback(" codex ", own) == ("codex", {}, [])
    found = fallback("HOME=~/second API_URL=https://x.example/a API_KEY=$KEY command:./a.sh A=b", own)
    given = {"HOME": f"{os.environ['HOME']}/second", "API_URL": "https://x.example/a", "API_KEY": "k-2"}
    assert found == ("command:./a.sh A=b", given, ["KEY"])
    for wrong, words in {
        "": "a provider is expected",
        "A=b": "a provider is expected",
        "A=$NOPE codex": "NOPE",
    }.items():
        with pytest.raises(ConfigurationError, match=words):
            fallback(wrong, own)


@pytest.mark.req("RUN-08")
@every(
    ("reason", "is_limited"),
    [
        ("Credit balance is too low", True),
        ("You've hit your limit · resets 3pm", True),
        ("rate limit exceeded", True),
        ("the context limit exceeded", False),
        ("the CLI's limit of cost is reached", False),
        ("Invalid API key · Please run /login", False),
    ],
)
def test_only_a_limit_of_the_account_lets_another_one_take_over(reason: str, *, is_limited: bool) -> None:
    assert failed_of(reason).is_limited == is_limited


@pytest.mark.req("RUN-09")
def test_tools_that_people_could_not_be_asked_about_are_not_said_to_be_refused_by_them() -> None:
    turn = TurnEnded(outcome=DONE, text="Could not.", refused_tools=("edit",))
    ending = ending_of(turn, shown="", is_settled=False, not_asked="the call is too long to be shown")
    assert isinstance(ending, NotDone)
    assert ending.reason == "people could not be asked about what it needed (edit): the call is too long to be shown"


@pytest.mark.req("SEC-08")
@pytest.mark.parametrize("provider", ["codex", "opencode", "acp:gemini --acp", "acp:/opt/x", "command:claude -p"])
def test_a_cli_that_obeys_a_repository_starts_only_in_the_sandbox_or_if_it_is_trusted(provider: str) -> None:
    check_trust(provider, repo=None, sandbox=False, trusted=False)
    check_trust(provider, repo="shop", sandbox=True, trusted=False)
    check_trust(provider, repo="shop", sandbox=False, trusted=True)
    check_trust("claude", repo="shop", sandbox=False, trusted=False)
    with pytest.raises(ConfigurationError, match="before anybody is asked"):
        check_trust(provider, repo="shop", sandbox=False, trusted=False)


@pytest.mark.req("SEC-08")
def test_without_a_sandbox_on_the_coordinators_machine_the_start_says_what_that_means(tmp_path: Path) -> None:
    token = tmp_path / "operator.token"
    assert unbound("claude", sandbox=False, operator_file=token) == ""
    token.touch()
    assert "approvals do not bind it" in unbound("claude", sandbox=False, operator_file=token)
    assert unbound("claude", sandbox=True, operator_file=token) == ""


@pytest.mark.req("RUN-02")
def test_sessions_survive_a_restart_and_an_unreadable_file_only_means_new_ones(tmp_path: Path) -> None:
    kept = KeptSession(provider="claude", workdir="/work", session_id="one", turns=2)
    Sessions(tmp_path).keep("thread", kept)
    found = Sessions(tmp_path).get("thread", "claude")
    assert found
    assert (found.session_id, found.turns, found.at > 0) == ("one", 2, True)
    assert Sessions(tmp_path).get("thread", "codex") is None
    (tmp_path / "sessions.json").write_text('{"thread": {"prov')
    assert Sessions(tmp_path).get("thread", "claude") is None


@pytest.mark.req("RUN-02")
def test_a_session_that_cannot_be_stored_is_kept_in_memory_and_stored_when_that_is_possible(tmp_path: Path) -> None:
    folder = tmp_path / "runner"
    sessions = Sessions(folder)
    first = KeptSession(provider="claude", workdir="/w", session_id="s-1")
    sessions.keep("a", first)
    found = sessions.get("a", "claude")
    assert found
    assert found.session_id == "s-1"
    folder.mkdir()
    sessions.keep("b", first)
    assert Sessions(folder).get("a", "claude") == found


@pytest.mark.req("RUN-01")
@pytest.mark.parametrize("name", ["lock", ".instance.new"])
def test_a_folder_in_which_nothing_can_be_written_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(ConfigurationError, match="cannot be used") as raised, RunnerHome(tmp_path).locked():
        pass
    assert str(tmp_path) in raised.value.message


@pytest.mark.req("RUN-01")
async def test_a_kept_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    settings = RunnerSettings(name="wim", provider="claude", home=tmp_path, url="http://127.0.0.1:9")
    kept = tmp_path / "token"
    kept.write_text("secret\n")
    kept.chmod(0o600)
    assert await RunnerHome(tmp_path).token(settings, Keys()) == "secret"
    for mode in (0o640, 0o604):
        kept.chmod(mode)
        with pytest.raises(ConfigurationError, match="can be read by other users") as raised:
            await RunnerHome(tmp_path).token(settings, Keys())
        assert f"chmod 600 {kept}" in str(raised.value.hint)


@pytest.mark.req("RUN-01")
async def test_a_token_with_which_a_runner_cannot_register_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def register(*_: object) -> None:
        raise Refused("unauthorized", "This bearer token is not known, or was revoked.")

    monkeypatch.setattr("swarm_runner.home.register", register)
    settings = RunnerSettings(name="wim", provider="claude", home=tmp_path, url="http://127.0.0.1:9")
    for keys, name in ((Keys(operator_token="x"), "OPERATOR_TOKEN"), (Keys(enrolment_key="x"), "ENROLMENT_KEY")):
        with pytest.raises(ConfigurationError, match=f"^SWARM_{name} is not a token of the coordinator at http"):
            await RunnerHome(tmp_path).token(settings, keys)


@pytest.mark.req("RUN-03")
async def test_a_thread_has_one_lock_for_its_session(tmp_path: Path) -> None:
    sessions, order = Sessions(tmp_path), []

    async def use(name: str) -> None:
        async with sessions.lock("thread"):
            order.append(f"{name} begins")
            await asyncio.sleep(0)
            order.append(f"{name} ends")

    await asyncio.gather(use("one"), use("two"))
    assert order == ["one begins", "one ends", "two begins", "two ends"]


@pytest.mark.req("RUN-01")
@every("provider", ["", "claude:x", "acp", "acp: ", "command", "shell:ls", "command:'unclosed"])
def test_an_unknown_provider_is_refused(provider: str) -> None:
    with pytest.raises(ConfigurationError, match="--provider"):
        door_of(provider)
