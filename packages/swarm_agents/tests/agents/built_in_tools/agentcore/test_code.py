"""code-execute: what code prints comes back, and its session ends, whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, MutableMapping
from typing import Any

import pytest

from swarm_agents.built_in_tools.agentcore.core import AgentCore
from swarm_agents.toolbox.tool import Tool, ToolAnswer
from tests.support.agentcore import INTERPRETERS, Fails, FakeAgentCore
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("TOOL-04"), pytest.mark.asyncio(loop_scope="session")]


def printed(out: str = "", err: str = "", code: int = 0) -> Mapping[str, object]:
    """A result as the service gives it: the text twice."""
    structured = {"stdout": out, "stderr": err, "exitCode": code, "executionTime": 0.1}
    return {"content": [{"type": "text", "text": out}], "structuredContent": structured, "isError": code != 0}


@pytest.fixture
def execute(tools: Mapping[str, Tool]) -> Tool:
    return tools["code-execute"]


async def test_what_the_code_prints_is_the_answer_once(execute: Tool, aws: FakeAgentCore) -> None:
    aws.results = [printed("42\n")]
    assert await execute.call({"code": "print(42)"}) == ToolAnswer(text="42")
    (sent,) = aws.asked("InvokeCodeInterpreter")
    assert sent["name"] == "executeCode"
    assert sent["arguments"] == {"code": "print(42)", "language": "python", "clearContext": False}


async def test_each_call_has_a_session_of_its_own_which_is_stopped(execute: Tool, aws: FakeAgentCore) -> None:
    aws.results = [printed("x")]
    await asyncio.gather(*(execute.call({"code": "1", "language": "javascript"}) for _ in range(5)))
    assert len(aws.started) == 5
    assert aws.running == set()


async def test_aws_ends_a_session_by_itself_soon_after_the_time_of_a_call(execute: Tool, aws: FakeAgentCore) -> None:
    await execute.call({"code": "1"})
    (start,) = aws.asked("StartCodeInterpreterSession")
    assert start["sessionTimeoutSeconds"] == 180


async def test_code_that_fails_is_a_failure_that_shows_all_it_printed(execute: Tool, aws: FakeAgentCore) -> None:
    aws.results = [printed("half\n", "ZeroDivisionError\n", 1)]
    answer = await execute.call({"code": "1/0"})
    assert answer.failed
    assert answer.text == "The code failed with exit code 1.\n\nhalf\n\nErrors:\nZeroDivisionError"


async def test_results_that_come_in_pieces_are_joined(execute: Tool, aws: FakeAgentCore) -> None:
    aws.results = [printed("one\n"), printed("two\n")]
    assert (await execute.call({"code": "x"})).text == "one\ntwo"


async def test_what_is_no_text_is_named(execute: Tool, aws: FakeAgentCore) -> None:
    image = {"type": "image", "mimeType": "image/png", "data": "AAAA"}
    aws.results = [{"content": [{"type": "text", "text": "done"}, image]}]
    assert (await execute.call({"code": "plot()"})).text == "done\n\n[image image/png]"


async def test_code_that_prints_nothing_says_so(execute: Tool, aws: FakeAgentCore) -> None:
    aws.results = [printed()]
    assert await execute.call({"code": "x = 1"}) == ToolAnswer(text="It ran and printed nothing.")


async def test_long_output_is_cut(execute: Tool, aws: FakeAgentCore) -> None:
    aws.results = [printed("a" * 5_000), printed("b" * 5_000)]
    assert (await execute.call({"code": "x"})).text == "a" * 2_000 + "\n[… 8,000 characters more]"


async def test_a_language_that_there_is_not_is_refused_without_a_session(execute: Tool, aws: FakeAgentCore) -> None:
    answer = await execute.call({"code": "1", "language": "cobol"})
    assert answer.failed
    assert "python, javascript, typescript" in answer.text
    assert aws.requests == []


async def test_an_error_within_the_stream_is_readable(execute: Tool, aws: FakeAgentCore) -> None:
    aws.stream_fails = Fails(code="throttlingException", message="slow down")
    answer = await execute.call({"code": "1"})
    assert answer == ToolAnswer(
        text="AgentCore is overloaded, or a quota is exhausted; try again in a minute.", failed=True
    )
    assert aws.running == set()


async def test_a_stream_that_breaks_off_is_a_failure(execute: Tool, aws: FakeAgentCore) -> None:
    aws.results, aws.cut = [printed("42")], True
    answer = await execute.call({"code": "1"})
    assert answer == ToolAnswer(text="The interpreter ended without a result.", failed=True)
    assert aws.running == set()


@pytest.mark.parametrize(
    ("fails", "says"),
    [
        (Fails(status=403, code="AccessDeniedException", message="User: arn:x is not"), "credentials and permissions"),
        (Fails(status=404, code="ResourceNotFoundException"), "does not recognise the operator's configuration"),
        (Fails(status=402, code="ServiceQuotaExceededException"), "try again in a minute"),
        (Fails(status=400, code="ValidationException", message="too odd."), "does not accept this request: too odd."),
        (Fails(status=418, code="TeapotException"), "AgentCore failed (TeapotException)"),
    ],
)
async def test_a_refusal_of_aws_is_a_sentence(execute: Tool, aws: FakeAgentCore, fails: Fails, says: str) -> None:
    aws.fails["StartCodeInterpreterSession"] = fails
    answer = await execute.call({"code": "1"})
    assert answer.failed
    assert says in answer.text
    assert "arn:" not in answer.text


async def test_code_is_never_sent_twice(execute: Tool, aws: FakeAgentCore) -> None:
    aws.fails["InvokeCodeInterpreter"] = Fails(status=500, code="InternalServerException")
    answer = await execute.call({"code": "pay()"})
    assert answer.failed
    assert len(aws.asked("InvokeCodeInterpreter")) == 1
    assert aws.running == set()


async def test_a_start_that_is_repeated_is_known_for_a_repetition(execute: Tool, aws: FakeAgentCore) -> None:
    aws.fails["StartCodeInterpreterSession"] = Fails(status=500, code="InternalServerException")
    assert (await execute.call({"code": "1"})).failed
    first, second = aws.asked("StartCodeInterpreterSession")
    assert first["clientToken"] == second["clientToken"]


async def test_a_call_that_is_cancelled_stops_its_session_before_it_ends(execute: Tool, aws: FakeAgentCore) -> None:
    aws.holds["InvokeCodeInterpreter"] = asyncio.Event()
    calling = asyncio.ensure_future(execute.call({"code": "sleep()"}))
    await aws.arrives("InvokeCodeInterpreter").wait()
    aws.arrives("StopCodeInterpreterSession")
    calling.cancel()
    await aws.arrives("StopCodeInterpreterSession").wait()
    aws.holds["InvokeCodeInterpreter"].set()  # as AWS ends what runs in a session that is stopped
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert aws.started
    assert aws.running == set()
    assert len(aws.started) == 1


async def test_a_session_that_starts_after_its_call_was_cancelled_is_stopped(
    execute: Tool, aws: FakeAgentCore, opened: AgentCore
) -> None:
    held = aws.holds["StartCodeInterpreterSession"] = asyncio.Event()
    calling = asyncio.ensure_future(execute.call({"code": "1"}))
    await aws.arrives("StartCodeInterpreterSession").wait()
    calling.cancel()
    await asyncio.sleep(0)
    calling.cancel()  # whoever ends it is in a hurry
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert aws.started == []
    held.set()
    await opened.aclose()
    assert [kind for kind, _ in aws.started] == [INTERPRETERS]
    assert aws.running == set()
    assert aws.asked("InvokeCodeInterpreter") == []


async def test_a_session_in_use_is_waited_for_at_the_end_though_its_call_is_only_being_cancelled(
    execute: Tool, aws: FakeAgentCore, opened: AgentCore
) -> None:
    aws.holds["InvokeCodeInterpreter"] = asyncio.Event()
    calling = asyncio.ensure_future(execute.call({"code": "sleep()"}))
    await aws.arrives("InvokeCodeInterpreter").wait()
    closing = asyncio.create_task(opened.aclose())
    await asyncio.sleep(0)
    assert not closing.done()
    calling.cancel()
    aws.holds["InvokeCodeInterpreter"].set()
    await closing
    assert aws.running == set()
    await asyncio.gather(calling, return_exceptions=True)


async def test_an_end_that_is_cut_off_says_what_is_left_to_aws(
    execute: Tool, aws: FakeAgentCore, opened: AgentCore, logs: list[MutableMapping[str, Any]]
) -> None:
    aws.holds["InvokeCodeInterpreter"] = aws.holds["StopCodeInterpreterSession"] = asyncio.Event()
    calling = asyncio.ensure_future(execute.call({"code": "sleep()"}))
    await aws.arrives("InvokeCodeInterpreter").wait()
    closing = asyncio.create_task(opened.aclose())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert [line["count"] for line in logs if line["action"] == "agentcore_left"] == [1]
    calling.cancel()
    aws.holds["InvokeCodeInterpreter"].set()
    await asyncio.gather(calling, return_exceptions=True)


async def test_a_stop_that_fails_does_not_spoil_the_answer(execute: Tool, aws: FakeAgentCore) -> None:
    aws.results = [printed("42")]
    aws.fails["StopCodeInterpreterSession"] = Fails(status=409, code="ConflictException")
    assert await execute.call({"code": "1"}) == ToolAnswer(text="42")
    await wait_until(lambda: asyncio.sleep(0, aws.asked("StopCodeInterpreterSession")))
