"""Every error of a provider becomes one sentence that people understand."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import httpx2
import pytest
from pydantic_ai import exceptions as pydantic_errors

from packages.swarm_agents.tests.agents.models.asking import ask, ask_whole, models
from swarm.domain.model.language_models import ModelSpec, Provider, RunLimits
from swarm_agents.models.troubles import TROUBLES, ModelTrouble, trouble_of
from swarm_agents.models.usage import limits_of
from tests.support.providers import (
    SERVERS,
    Call,
    Cut,
    Ends,
    EndsEarly,
    Fails,
    Raw,
    Reply,
    Say,
    Silent,
    Used,
    openai_server,
)

pytestmark = pytest.mark.req("AGENT-07")

every_provider = pytest.mark.parametrize("provider", list(Provider))

LASTING = {"authentication", "not_found"}

# What is answered each time -> the code, how many times the model is asked, and what is not so everywhere.
FAILURES: list[tuple[str, Reply, str, int, dict[Provider, str]]] = [
    ("bad request", Fails(400), "rejected", 1, {}),
    ("wrong key", Fails(401), "authentication", 1, {}),
    ("no access", Fails(403), "authentication", 1, {}),
    ("unknown model", Fails(404), "not_found", 1, {}),
    ("too large", Fails(413), "context_window", 1, {}),
    ("too often", Fails(429), "rate_limit", 3, {}),
    ("too often for long", Fails(429, retry_after=60), "rate_limit", 1, {}),
    ("broken", Fails(500), "server", 3, {}),
    ("broken with a page", Fails(502, b"<html>nginx</html>"), "server", 3, {}),
    ("away", Fails(503, message="Come back later."), "unavailable", 3, {}),
    ("overloaded", Fails(529), "overloaded", 3, {}),
    ("no payment", Fails(402), "quota", 1, {}),
    ("too long", Fails(400, kind="context"), "context_window", 1, {Provider.OLLAMA: "rejected"}),
    ("used up", Fails(400, kind="quota"), "quota", 1, {Provider.OLLAMA: "rejected"}),
    ("prompt filtered", Fails(400, kind="filter"), "refused", 1, {Provider.OLLAMA: "rejected"}),
    ("answer filtered", Ends("filter"), "refused", 1, {}),
    ("cut before the status", Cut(with_head=False), "connection", 3, {}),
    ("cut before the first word", Cut(), "connection", 3, {}),
    ("not what was asked for", Raw(b"data: {not json}\n\n"), "incomprehensible", 1, {}),
    ("breaks in the middle", [Say("Hello"), Fails(500)], "server", 1, {}),
    ("cut in the middle", [Say("Hello"), Cut()], "connection", 1, {}),
    ("tokens end in a call", [Call("add", '{"a": 1'), Ends("length")], "output_limit", 1, {}),
    ("tokens end after a call", [Call("add", {"a": 1, "b": 2}), Ends("length")], "output_limit", 1, {}),
    ("tokens end in a text", [Say("Hello"), Ends("length")], "output_limit", 1, {}),
    ("filtered in a text", [Say("Hello"), Ends("filter")], "refused", 1, {}),
    ("ends without a word", [Say("Hello"), EndsEarly()], "connection", 1, {}),
    ("ends without a word after a call", [Call("add", {"a": 1, "b": 2}), EndsEarly()], "connection", 1, {}),
]
WHOLE = len(FAILURES) - 8
"""The first so many are not in the middle of an answer."""


@every_provider
async def test_each_failure_of_a_provider_is_told_apart(provider: Provider) -> None:
    replies: list[Reply] = []
    async with SERVERS[provider](lambda request: replies[-1]) as server, models(server.spec()) as asked:
        for name, reply, code, count, exceptions in FAILURES:
            server.requests.clear()
            replies.append(reply)
            trouble = (await ask(asked)).trouble
            assert trouble is not None, name
            assert (name, trouble.code, len(server.requests)) == (name, exceptions.get(provider, code), count)
            assert trouble.is_lasting == (trouble.code in LASTING), name
            _is_for_people(trouble, asked.specs)


async def test_it_is_all_the_same_for_answers_that_come_whole() -> None:
    replies: list[Reply] = []
    async with openai_server(lambda request: replies[-1]) as server, models(server.spec()) as asked:
        for name, reply, code, count, _ in FAILURES[:WHOLE]:
            server.requests.clear()
            replies.append(reply)
            heard = await ask_whole(asked)
            assert (name, heard.code, len(server.requests)) == (name, code, count)


@every_provider
@pytest.mark.req("STREAM-14")
async def test_half_an_answer_is_shown_and_told_as_half(provider: Provider) -> None:
    ends: list[tuple[Reply, str]] = [
        ([Say("Hello "), EndsEarly()], "broke off its answer; try again in a moment."),
        (
            [Say("Hello "), Ends("length")],
            "did not finish its answer, which became too long; start a new conversation, or ask for less at once.",
        ),
    ]
    for reply, sentence in ends:
        async with SERVERS[provider]([reply]) as server, models(server.spec()) as asked:
            heard = await ask(asked)
            assert "".join(heard.pieces) == "Hello "
            assert heard.trouble is not None
            assert heard.trouble.message == f"The model {server.spec().label} {sentence}"


async def test_only_the_reason_is_needed_not_the_word_done() -> None:
    async with openai_server([[Say("Hello"), EndsEarly(but_done=True)]]) as server, models(server.spec()) as asked:
        heard = await ask(asked)
    assert (heard.answer, heard.trouble) == ("Hello", None)


@every_provider
@pytest.mark.parametrize("before", ["", "Hello"])
async def test_the_longest_silence_is_bounded_and_not_suffered_twice(provider: Provider, before: str) -> None:
    script: list[Reply] = [[Say(before), Silent()] if before else Silent(), Say("Too late.")]
    seconds = 2 if provider is Provider.BEDROCK else 0.4  # its library counts in a thread, by the real clock
    async with SERVERS[provider](script) as server, models(server.spec(timeout_seconds=seconds)) as asked:
        heard = await ask(asked)
    assert heard.code == "timeout"
    assert "".join(heard.pieces) == before
    assert len(server.requests) == 1


async def test_a_provider_that_says_when_to_come_back_is_quoted() -> None:
    async with (
        openai_server(lambda request: Fails(429, retry_after=42)) as server,
        models(server.spec()) as asked,
    ):
        heard = await ask(asked)
    assert heard.trouble == ModelTrouble(
        message="The model openai:gpt-5-mini is receiving too many requests right now; try again in 42 s.",
        code="rate_limit",
        model="openai:gpt-5-mini",
    )


async def test_nothing_listens_there() -> None:
    async with openai_server([]) as server:
        spec = server.spec()
    async with models(spec) as asked:
        heard = await ask(asked)
    assert heard.trouble is not None
    assert heard.trouble.message == "The model openai:gpt-5-mini cannot be reached; try again in a moment."


async def test_an_address_that_is_not_known(sought: list[str]) -> None:
    spec = ModelSpec(provider=Provider.ANTHROPIC, name="claude-sonnet-5", api_key="k")
    async with models(spec) as asked:
        heard = await ask(asked)
    assert heard.trouble is not None
    assert heard.trouble.message == "The model anthropic:claude-sonnet-5 cannot be reached: its address is unknown."
    assert set(sought) == {"api.anthropic.com"}
    sought.clear()


@pytest.mark.parametrize(
    ("region", "code", "lasting"), [("mars-1", "region", True), ("eu-west-1", "connection", False)]
)
async def test_a_region_that_there_is_not_is_told_from_a_network_that_is_down(
    region: str, code: str, lasting: bool, sought: list[str]
) -> None:
    async with models(ModelSpec(provider=Provider.BEDROCK, name="amazon.nova-lite-v1:0", region=region)) as asked:
        heard = await ask(asked)
    assert heard.trouble is not None
    assert (heard.trouble.code, heard.trouble.is_lasting) == (code, lasting)
    assert set(sought) == {f"bedrock-runtime.{region}.amazonaws.com"}
    sought.clear()


async def test_credentials_that_are_not_there_are_missed_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    async with SERVERS[Provider.BEDROCK]([]) as server, models(server.spec()) as asked:
        heard = await ask(asked)
        assert server.requests == []
    assert (heard.code, heard.trouble and heard.trouble.is_lasting) == ("credentials", True)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (RunLimits(requests=2), "2 calls of the model, which is the limit (limits.requests)"),
        (RunLimits(tokens=100), "100 tokens, which is the limit (limits.tokens)"),
        (RunLimits(tool_calls=1), "1 calls of tools, which is the limit (limits.tool_calls)"),
        (RunLimits(cost_dollars=Decimal("0.004")), "0.004 US dollars, which is the limit (limits.cost_dollars)"),
    ],
)
async def test_a_limit_that_ends_a_run_is_named_as_the_operator_names_it(limits: RunLimits, words: str) -> None:
    async with (
        SERVERS[Provider.ANTHROPIC](lambda request: [Call("add", {"a": 1, "b": 2}), Used(90, 90)]) as server,
        models(server.spec()) as asked,
    ):
        heard = await ask(asked, limits=limits_of(limits))
    assert heard.trouble
    assert (heard.trouble.code, heard.trouble.is_limit) == ("limit", True)
    assert limits.reached(heard.trouble.limit) == f"This took more than {words}."


async def test_no_word_of_the_provider_or_of_a_key_is_repeated() -> None:
    key = "sk-ant-very-secret-0123456789"
    body = {"error": {"message": f"Bad key {key} at https://me:pass@example.org", "type": key, "code": key}}
    async with (
        openai_server(lambda request: Fails(401, body)) as server,
        models(server.spec(api_key=key)) as asked,
    ):
        heard = await ask(asked)
        assert server.requests[0].headers["authorization"] == f"Bearer {key}"
    assert heard.trouble is not None
    assert key not in repr(heard.trouble)
    assert "example.org" not in repr(heard.trouble)
    assert key not in repr(server.spec(api_key=key))


async def test_words_of_servers_for_too_much_text_are_known() -> None:
    body = {"error": {"code": 400, "message": "the request exceeds the available context size", "type": "x"}}
    async with openai_server(lambda request: Fails(400, body)) as server, models(server.spec("qwen")) as asked:
        assert (await ask(asked)).code == "context_window"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (httpx2.ConnectError("no"), "connection"),
        (httpx2.ReadTimeout("slow"), "timeout"),
        (httpx2.RemoteProtocolError("what"), "connection"),
        (TimeoutError(), "timeout"),
        (ValueError("secret"), "internal"),
        (pydantic_errors.UserError("secret"), "internal"),
        (pydantic_errors.ModelAPIError("gpt-5", "secret"), "incomprehensible"),
        (pydantic_errors.UnexpectedModelBehavior("secret", "secret"), "incomprehensible"),
        (pydantic_errors.ContentFilterError("secret"), "refused"),
        (pydantic_errors.OutputTokenLimitExceeded("secret"), "output_limit"),
        (pydantic_errors.ModelRequestTimeout("gpt-5", 3), "timeout"),
        (pydantic_errors.ConcurrencyLimitExceeded("secret"), "busy"),
        (pydantic_errors.RunCancelled("secret"), "cancelled"),
        (pydantic_errors.RunTimedOut("secret"), "limit"),
        (pydantic_errors.UsageLimitExceeded("secret"), "limit"),
        (pydantic_errors.ModelHTTPError(418, "gpt-5"), "rejected"),
        (pydantic_errors.ModelHTTPError(599, "gpt-5"), "server"),
        (pydantic_errors.FallbackExceptionGroup("secret", [ValueError("secret")]), "internal"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value,
)
def test_errors_that_nobody_has_named_are_put_into_words_too(error: Exception, code: str) -> None:
    spec = ModelSpec(provider=Provider.OPENAI, name="gpt-5")
    trouble = trouble_of(error, [spec])
    assert trouble.code == code
    assert "secret" not in trouble.message
    if code != "limit":
        assert trouble.message.startswith("The model ")
        assert "gpt-5" in trouble.message


def test_every_error_of_pydantic_ai_about_a_model_has_a_code() -> None:
    kinds = [kind for kind in vars(pydantic_errors).values() if isinstance(kind, type)]
    about_models = [
        kind
        for kind in kinds
        if issubclass(kind, pydantic_errors.ModelAPIError | pydantic_errors.UnexpectedModelBehavior)
        and kind.__module__ == pydantic_errors.__name__
    ]
    assert len(about_models) > 15
    for kind in about_models:
        error = kind.__new__(kind)
        error.__dict__.update(
            body=None, provider_error_code=None, status_code=404, model_name="gpt-5", retry_after=None
        )
        assert trouble_of(error).code in TROUBLES, kind


def _is_for_people(trouble: ModelTrouble, specs: Sequence[ModelSpec]) -> None:
    assert trouble.model == specs[0].label
    assert trouble.message.startswith(f"The model {specs[0].label} ")
    assert trouble.message.endswith(".")
    assert "\n" not in trouble.message
    assert len(trouble.message) < 200
    assert all(word not in trouble.message for word in ("http", "127.0.0.1", "Error", "{", "Traceback"))
