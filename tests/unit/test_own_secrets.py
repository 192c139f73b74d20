"""Secrets that an operator makes up have a minimum length; those of others are only expected to be there."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from swarm.app import home, preflight, settings_mapping
from swarm.config import Settings, load
from swarm.domain.errors import ConfigurationError

GOOD = "sixteen-letters!"
TOKENS = {"SLACK_BOT_TOKEN": "x", "SLACK_APP_TOKEN": "y"}

Read = Callable[..., Settings]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read(yaml: str = "", **environment: str) -> Settings:
        (tmp_path / "swarm.yaml").write_text(yaml)
        given = {"SWARM_HOME": str(tmp_path / "home"), **TOKENS, **environment}
        return load(given, folder=tmp_path, user_home=tmp_path / "user")

    return read


@pytest.mark.req("SEC-05")
@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("SWARM_OPERATOR_TOKEN", "operator_token"),
        ("SWARM_ENROLMENT_KEY", "enrolment_key"),
        ("SWARM_METRICS_TOKEN", "metrics.token"),
    ],
)
@pytest.mark.parametrize("secret", ["q", "fifteen-letters", "a" * 64, "short" + " " * 20])
def test_a_secret_that_is_easily_tried_out_stops_the_start_and_the_way_to_make_one_is_said(
    read: Read, name: str, key: str, secret: str
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read(**{name: secret})
    said = raised.value.message
    assert said.startswith(f"{key} ({name}): at least 16 characters are expected")
    assert repr(secret) not in said
    command = shlex.split(said[said.index("python -c") :])
    made = subprocess.run([sys.executable, *command[1:]], capture_output=True, text=True, check=True).stdout.strip()
    read(**{name: made})
    read(**{name: GOOD})


@pytest.mark.req("SEC-05")
@pytest.mark.parametrize("kept", ["q\n", "", "\n", "x" * 40])
def test_a_kept_operator_token_that_is_too_short_stops_the_start(read: Read, tmp_path: Path, kept: str) -> None:
    path = tmp_path / "home" / "operator.token"
    path.parent.mkdir()
    path.write_text(kept)
    for use in (preflight.check, home.make_operator_token):
        with pytest.raises(ConfigurationError) as raised:
            use(read())
        assert raised.value.message.startswith(f"The operator token in {path} is not safe: at least 16 characters")
        assert raised.value.hint == "Delete the file; `swarm up` then creates a new token."
    preflight.check(read(SWARM_OPERATOR_TOKEN=GOOD))
    path.unlink()
    preflight.check(read())
    assert len(home.make_operator_token(read())) > 40


@pytest.mark.req("SEC-05")
@pytest.mark.parametrize("key", ["bot_token", "app_token", "signing_secret"])
def test_of_slacks_own_secrets_nothing_is_expected_but_that_they_are_there(read: Read, key: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"slack\.{key} \(SLACK_\w+\): the value is empty"):
        read(**{f"SLACK_{key.upper()}": " "})
    read(**{f"SLACK_{key.upper()}": "z"})


@pytest.mark.req("AGENT-07")
def test_a_model_without_its_key_stops_the_start_before_the_database_is_touched(read: Read, tmp_path: Path) -> None:
    settings = read(LLM_MODEL="gpt-5-mini")
    with pytest.raises(ConfigurationError, match="The model openai:gpt-5-mini needs a key"):
        preflight.check(settings)  # `swarm up`
    with pytest.raises(ConfigurationError, match="The model openai:gpt-5-mini needs a key"):
        preflight.check_models(settings_mapping.model_specs(settings, "assistant"))  # `swarm chat`
    assert list((tmp_path / "home").glob("*.db*")) == []
    preflight.check(read(LLM_MODEL="gpt-5-mini", OPENAI_API_KEY="sk-x"))
