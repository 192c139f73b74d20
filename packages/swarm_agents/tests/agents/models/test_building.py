"""How models are set up: with which key, at which address, and without asking anybody."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from packages.swarm_agents.tests.agents.models.asking import ask, models
from swarm.domain.errors import ConfigurationError
from swarm.domain.model.language_models import ModelSpec, Provider
from swarm_agents.models.building import Models, build
from tests.support.providers import SERVERS, Fails, Say, bedrock_server, ollama_server, openai_server

pytestmark = pytest.mark.req("AGENT-07")


@pytest.mark.parametrize(
    ("provider", "variable"), [(Provider.OPENAI, "OPENAI_API_KEY"), (Provider.ANTHROPIC, "ANTHROPIC_API_KEY")]
)
def test_a_missing_key_is_named(provider: Provider, variable: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        build([ModelSpec(provider=provider, name="x")])
    assert raised.value.message == f"The model {provider}:x needs a key."
    assert raised.value.hint == f"Set {variable} (providers.{provider}.api_key)."


def test_no_model_at_all_is_an_error() -> None:
    with pytest.raises(ConfigurationError) as raised:
        build([])
    assert raised.value.hint == "Set LLM_MODEL (model.name)."


@pytest.mark.parametrize("region", [None, "not a region"])
def test_bedrock_needs_a_region(region: str | None) -> None:
    with pytest.raises(ConfigurationError) as raised:
        build([ModelSpec(provider=Provider.BEDROCK, name="x", region=region)])
    assert raised.value.hint == "Set providers.bedrock.region or AWS_REGION."


def test_a_profile_of_awss_that_is_not_there_is_an_error_of_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(ConfigurationError) as raised:
        build([ModelSpec(provider=Provider.BEDROCK, name="x", region="eu-west-1")])
    assert raised.value.hint == "Check AWS_PROFILE."


@pytest.mark.parametrize("variable", ["AWS_REGION", "AWS_DEFAULT_REGION"])
async def test_the_region_may_come_from_awss_own_variables(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "eu-north-1")
    async with bedrock_server([Say("Yes.")]) as server:
        spec = ModelSpec(provider=Provider.BEDROCK, name="amazon.nova-lite-v1:0", base_url=server.base_url)
        async with models(spec) as asked:
            assert (await ask(asked)).answer == "Yes."
    assert "/eu-north-1/bedrock/" in server.requests[0].headers["authorization"]


async def test_nobody_is_asked_anything_before_the_first_question(
    monkeypatch: pytest.MonkeyPatch, sought: list[str]
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    specs = [ModelSpec(provider=provider, name="x", api_key="key", region="eu-west-1") for provider in Provider]
    async with Models(specs):
        assert sought == []


@pytest.mark.parametrize("provider", [Provider.OPENAI, Provider.ANTHROPIC, Provider.OLLAMA])
async def test_a_server_of_ones_own_needs_no_key_and_is_shown_nobody_elses(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OLLAMA_API_KEY"):
        monkeypatch.setenv(variable, "sk-somebody-elses")
    async with SERVERS[provider]([Say("Yes.")]) as server:
        spec = ModelSpec(provider=provider, name="local", base_url=server.base_url)
        async with models(spec) as asked:
            assert (await ask(asked)).answer == "Yes."
    assert "somebody-elses" not in repr(server.requests[0].headers)


async def test_the_address_is_the_configured_one_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, sought: list[str]
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere.example/v1")
    async with models(ModelSpec(provider=Provider.OPENAI, name="gpt-5-mini", api_key="k")) as asked:
        await ask(asked)
    assert set(sought) == {"api.openai.com"}
    sought.clear()


@pytest.mark.parametrize("tail", ["", "/", "/v1", "/v1/"])
async def test_ollamas_address_is_taken_with_and_without_v1(tail: str) -> None:
    async with ollama_server([Say("Yes.")]) as server:
        spec = ModelSpec(
            provider=Provider.OLLAMA, name="qwen3:8b", base_url=server.base_url + tail, api_key="for-a-proxy"
        )
        async with models(spec) as asked:
            assert (await ask(asked)).answer == "Yes."
    assert server.requests[0].headers["authorization"] == "Bearer for-a-proxy"


@pytest.mark.parametrize("provider", [Provider.OPENAI, Provider.ANTHROPIC])
async def test_a_redirect_is_not_followed_with_a_key_in_hand(provider: Provider) -> None:
    async with SERVERS[provider](lambda request: Say("Give me that key.")) as thief:
        away = Fails(307, headers={"Location": f"{thief.base_url}/"})
        async with SERVERS[provider](lambda request: away) as server, models(server.spec()) as asked:
            assert (await ask(asked)).trouble is not None
    assert thief.requests == []


async def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with openai_server([Say("Yes.")]) as server, models(server.spec()) as asked:
        assert (await ask(asked)).answer == "Yes."


async def test_many_runs_share_the_models() -> None:
    async with openai_server(lambda request: Say(request.last_text)) as server, models(server.spec()) as asked:
        answers = await asyncio.gather(*(ask(asked, text=f"Number {n}") for n in range(20)))
    assert [heard.answer for heard in answers] == [f"Number {n}" for n in range(20)]


@pytest.mark.long
def test_the_library_of_a_provider_that_nobody_uses_is_not_loaded() -> None:
    program = (
        "import sys\n"
        "from swarm_agents.models import building, check, troubles, usage\n"
        "print(sorted({'openai', 'anthropic', 'boto3', 'botocore'} & set(sys.modules)))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=dict(os.environ))
    assert (ran.stdout, ran.stderr) == ("[]\n", "")
