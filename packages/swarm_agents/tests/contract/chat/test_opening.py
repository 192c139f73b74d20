"""Who is talked to: the coordinator's agent where one runs, else the agent itself; and what if there is neither."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import pytest
from rich.console import Console

from packages.swarm_agents.tests.contract.agui_api.scene import Place
from swarm.app import preflight, settings_mapping
from swarm.cli import NoServer
from swarm.config import Settings, load
from swarm.config.builtin import FallbackSettings
from swarm.domain.errors import ConfigurationError, NotFound
from swarm_agents.cli.chat.conversation import once
from swarm_agents.cli.chat.display import PlainText, answered, complaint
from swarm_agents.cli.chat.keys import Interrupts
from swarm_agents.cli.chat.opening import ChatArguments, coordinator_agents, opened
from tests.support.processes import free_port
from tests.support.providers import Fails, ProviderServer, Reply, Request, Say, openai_server

pytestmark = pytest.mark.req("AGENT-10")


def settings(tmp_path: Path, **more: str) -> Settings:
    """Of somebody without a coordinator, unless PORT says otherwise."""
    given = {"SWARM_HOME": str(tmp_path / "home"), "PORT": str(free_port()), **more}
    return load(given, folder=tmp_path, user_home=tmp_path)


def with_model(tmp_path: Path, server: ProviderServer, **more: str) -> Settings:
    model = {"LLM_MODEL": "gpt-5-mini", "OPENAI_API_KEY": "sk-mine", "OPENAI_BASE_URL": server.base_url}
    return settings(tmp_path, **model, **more)


class Written:
    """A stream that keeps what is written."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass


async def asked(settings: Settings, text: str, wish: ChatArguments | None = None) -> tuple[str, str]:
    """One question to whoever answers: the answer with what is wrong with it, and the session."""
    written = Written()
    async with opened(settings, wish or ChatArguments(), checks_model=False) as chat:
        end = await answered(chat.client, text, chat.session_id, PlainText(written))  # type: ignore[arg-type]
        return written.text.removesuffix("\n") + complaint(end, chat.agent), chat.session_id


@pytest.mark.req("AGENT-06", "AGENT-12")
async def test_one_question_leaves_a_session_that_became_too_long_summarised(tmp_path: Path) -> None:
    def answer(request: Request) -> Reply:
        return Say("they talked") if "The conversation" in request.last_text else Say("hm")

    (tmp_path / "swarm.yaml").write_text("runtime: {session: {compaction_threshold: 3, keep_recent_messages: 1}}")
    async with openai_server(answer) as server:
        here = with_model(tmp_path, server)
        for wish in (ChatArguments(), ChatArguments(resume=True)):
            async with opened(here, wish, checks_model=False) as chat:
                assert await once(chat, "and this?", Console(file=io.StringIO()), Interrupts()) == 0
        await asked(here, "what was that?", ChatArguments(resume=True))
        assert "they talked" in str(server.requests[-1].body)


@pytest.mark.req("AGENT-07")
async def test_a_model_whose_address_refuses_is_named_before_anything_heavy_is_loaded(tmp_path: Path) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    here = settings(tmp_path, LLM_MODEL="qwen3:8b", OLLAMA_BASE_URL=nowhere, OPENAI_API_KEY="sk-x")
    with pytest.raises(ConfigurationError, match=rf"nothing listens at {nowhere}") as refused:
        await asked(here, "hi")
    assert "LLM_PROVIDER" in (refused.value.hint or "")  # ollama was guessed
    with_other = here.model_copy(update={"model": here.model.model_copy(update={"fallbacks": [_fallback()]})})
    preflight.check_models(settings_mapping.model_specs(with_other))  # which may answer


def _fallback() -> FallbackSettings:
    return FallbackSettings(name="gpt-5-mini")


@pytest.mark.req("AGENT-05")
async def test_without_a_coordinator_the_agent_works_here_and_remembers_when_it_is_opened_again(tmp_path: Path) -> None:
    def answer(request: Request) -> Reply:
        return Say(f"Heard: {' | '.join(request.texts)}")

    async with openai_server(answer) as server:
        here = with_model(tmp_path, server)
        first, session = await asked(here, "my name is Ada")
        other, other_session = await asked(here, "who am I?")
        again, same = await asked(here, "who am I?", ChatArguments(resume=True, session_id=session))
        last, latest = await asked(here, "and now?", ChatArguments(resume=True))
    assert first == "Heard: my name is Ada"
    assert other == "Heard: who am I?"
    assert other_session != session
    assert (again, same) == ("Heard: my name is Ada | who am I?", session)
    assert latest == session
    assert last.endswith("and now?")
    assert "Ada" in last


@pytest.mark.req("AGENT-07")
async def test_a_wrong_key_is_told_at_the_start_of_a_conversation_and_in_the_place_of_an_answer(tmp_path: Path) -> None:
    async with openai_server([Fails(401), Fails(401)]) as server:
        here = with_model(tmp_path, server)
        answer, _ = await asked(here, "hi")
        with pytest.raises(ConfigurationError) as raised:
            async with opened(here, ChatArguments(), checks_model=True):
                pass
    assert "refuses our key" in answer
    assert raised.value.message == "The model openai:gpt-5-mini refuses the key from OPENAI_API_KEY."
    assert "sk-mine" not in answer


async def test_without_a_model_or_with_none_of_our_agents_the_error_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as raised:
        await asked(settings(tmp_path), "hi")
    for word in ("LLM_MODEL", "OPENAI_API_KEY", "Ollama", "swarm demo"):
        assert word in f"{raised.value} {raised.value.hint}"
    assert not (tmp_path / "home").exists()  # nothing was begun
    remote = {"DYNAMIC_AGENTS_URL": "http://127.0.0.1:1", "LLM_MODEL": "gpt-5-mini"}
    with pytest.raises(ConfigurationError, match="No built-in agent"):
        await asked(settings(tmp_path, **remote), "hi")


async def test_a_session_or_an_agent_that_is_not_there_is_named(env: Mapping[str, str], tmp_path: Path) -> None:
    here = load(dict(env), folder=tmp_path, user_home=tmp_path)
    for wish, words in (
        (ChatArguments(resume=True), "no session to continue"),
        (ChatArguments(resume=True, session_id="cli:x"), "no session cli:x"),
        (ChatArguments(agent="nobody"), "no built-in agent 'nobody'"),
    ):
        with pytest.raises(NotFound, match=words):
            await asked(here, "hi", wish)


async def test_the_coordinators_agents_answer_where_it_runs(env: Mapping[str, str], tmp_path: Path) -> None:
    here = load(dict(env), folder=tmp_path, user_home=tmp_path)
    assert (await asked(here, "hi", ChatArguments(agent="assistant")))[0] == "Hello you."
    with_default = here.model_copy(update={"agents": here.agents.model_copy(update={"default": "assistant"})})
    async with opened(with_default, ChatArguments(), checks_model=True) as chat:
        assert chat.agent == "assistant"
    async with opened(here, ChatArguments(), checks_model=True) as chat:  # the settings here do not name its agents
        assert chat.agent == "assistant"


async def test_only_a_coordinator_that_lets_us_in_counts(here: Place, env: Mapping[str, str], tmp_path: Path) -> None:
    def look(**more: str) -> Mapping[str, object]:
        return coordinator_agents(load({**env, **more}, folder=tmp_path, user_home=tmp_path))

    import asyncio

    there = await asyncio.to_thread(look)
    assert list(there) == ["tools", "assistant"]
    assert "operator-of-the-tests" not in repr(there)
    assert await asyncio.to_thread(look, SWARM_OPERATOR_TOKEN="another-of-the-tests") == {}
    assert await asyncio.to_thread(look, SWARM_OPERATOR_TOKEN="") == {}  # none was made in this home
    assert await asyncio.to_thread(look, PORT=str(free_port())) == {}
    assert await asyncio.to_thread(look, PORT=str(free_port()), SWARM_URL=f"{here.base}/")
    with pytest.raises(NoServer, match="SWARM_URL"):
        await asyncio.to_thread(look, SWARM_URL=f"http://127.0.0.1:{free_port()}")


async def test_a_database_that_the_coordinator_has_elsewhere_hinders_only_who_wants_to_see_it(
    env: Mapping[str, str], tmp_path: Path
) -> None:
    here = load({**env, "SWARM_DATABASE_URL": ""}, folder=tmp_path, user_home=tmp_path)
    assert (await asked(here, "hi"))[0] == "Hello you."
    with pytest.raises(Exception, match="cannot be read from here"):
        await asked(here, "hi", ChatArguments(resume=True))
    assert not (tmp_path / "home" / "swarm.db").exists()
