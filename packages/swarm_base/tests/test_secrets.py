"""What looks like a secret, or is one of ours, does not leave; what is none stays as it is."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_base import secrets
from swarm_base.redaction import HIDDEN, Redactor
from swarm_base.secrets import REMOVED, Secrets, without_secrets
from tests.support.every import every

pytestmark = pytest.mark.req("SEC-04")

OWN = "made-up-by-somebody"
KEY = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
PEM = "MIIEpAIBAAKCAQEA7cV3nZ8kR4f9aQ2mX7bL0wJalrXUtnFEMIK7MDENGbPxRf9A"
TEXTS = {  # a text with a secret in it, and the part of it that nobody may see
    "Slack": ("xoxb-1234567890-abcdefghij1", "1234567890"),
    "Slack, rotated": ("xoxe.xoxb-1-Mi0yLTEyMzQ1Njc4OTA", "Mi0y"),
    "our own": ("swarm_Zm9vYmFyYmF6cXV4cXV1eA42abc", "Zm9v"),
    "OpenAI": ("sk-proj-4f9aQ2mX7bL0cV3nZ8kR", "4f9a"),
    "GitHub": ("ghp_4f9aQ2mX7bL0cV3nZ8kR4f9aQ2mX7bL0", "4f9a"),
    "GitHub, fine": ("github_pat_11AAAAAAA0abcdefghij_4f9aQ2mX7bL0cV3", "4f9a"),
    "GitLab": ("gldt-4f9aQ2mX7bL0cV3nZ8kR", "4f9a"),
    "AWS id": ("AKIAIOSFODNN7EXAMPLE", "IOSFODNN7"),
    "AWS secret": (f"aws_secret_access_key = {KEY}", "bPxRfi"),
    "AWS in JSON": (f'{{"SecretAccessKey": "{KEY}"}}', "bPxRfi"),
    "JWT": ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3", "dozjg"),
    "Hugging Face": ("hf_abcdEFGHijklMNOPqrstUVWXyz01234567", "EFGH"),
    "npm": ("npm_abcdEFGHijklMNOPqrstUVWXyz0123456789", "EFGH"),
    "PyPI": ("pypi-AgEIcHlwaS5vcmcCJDU2YjQ1NzA2LTEyMzQtNDU2Ny04OTAxAAIqWzMs", "HlwaS5"),
    "Google": ("AIzaSyA1234567890abcdefghijklmnopqrstuv", "A12345"),
    "Google, OAuth": ("ya29.a0AfH6SMBx1234567890abcdefg", "AfH6"),
    "Google, client": ("GOCSPX-1234567890abcdefghijklmn", "12345"),
    "Stripe": ("rk_live_4eC39HqLyjWDarjtT1zdp7dc", "4eC39"),
    "SendGrid": ("SG.abcdefghijklmnopqrstuv.ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmno12", "ABCDEF"),
    "Azure": ("DefaultEndpointsProtocol=https;AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50u==;", "Eby8"),
    "Azure, signed": ("https://x.blob.core.windows.net/a?sv=1&sig=abc123def456%2Bxyz%3D&se=2", "def456"),
    "Databricks": ("dapi0123456789abcdef0123456789abcdef", "456789ab"),
    "Twilio": ("SK0123456789abcdef0123456789abcdef", "456789ab"),
    "Vault": ("hvs.CAESIJ1234567890abcdefghij", "ESIJ"),
    "age": ("AGE-SECRET-KEY-1QYQSZQGPQYQSZQGPQYQSZQGPQYQSZQGPQYQSZQGPQYQSZQGPQYQSZ1", "QSZQG"),
    "RSA": (f"-----BEGIN RSA PRIVATE KEY-----\n{PEM}\n{PEM}\nab==\n-----END RSA PRIVATE KEY-----", PEM),
    "OpenSSH": (f"-----BEGIN OPENSSH PRIVATE KEY-----\n{PEM}\n-----END OPENSSH PRIVATE KEY-----", PEM),
    "PEM in JSON": (f'"-----BEGIN PRIVATE KEY-----\\n{PEM}\\n-----END PRIVATE KEY-----\\n"', PEM),
    "PEM with a head": (f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{PEM}\n-----END", PEM),
    "PEM cut off": (f"-----BEGIN PRIVATE KEY-----\n{PEM}\n{PEM[:20]}", PEM[:12]),
    "database": ("postgresql://swarm:hunter2hunter2@db.example/swarm", "hunter2"),
    "bearer": ("Authorization: Bearer c2VjcmV0LW9wYXF1ZQ12", "c2Vj"),
    "password": ("password: Summer2024!x", "Summer"),
    "webhook": ("https://hooks.slack.com/services/T0123/B0123/abcdefghijkl", "abcdefghijkl"),
    "told": (f"it says {OWN} there", OWN),
}

ORDINARY = """
The run 019a2b3c-4d5e-7f80-9a1b-2c3d4e5f6071 of thread C0123456789:1700000000.000100 took 3.5 s on commit
196b89e0f4d2a7c3b5e6f708192a3b4c5d6e7f80; see https://github.com/a/b/commit/196b89e0f4d2a7c3b5e6f708192a3b4c5d6e7f80.
sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855, 1,024 tokens, token count: 4096.
The password: ask your admin. The secret: nobody knows. A basic authentication-header is sent; bearer of bad news.
token = settings.token_v2; api_key = os.environ["API_KEY"]; password = get_password2(user); secret: str | None = None
lease_token: the lease token of your prompt. `SWARM_OPERATOR_TOKEN=$(cat token)`, `export API_KEY=${MY_API_KEY_1}`
Set SLACK_BOT_TOKEN=xoxb-your-token-here and OPENAI_API_KEY=sk-your-key-here. postgresql://user:password@host/db
swarm_slack_events_total, swarm_feedback, swarm_stop_turn, hf_hub_download, npm_config_registry, sk-learn, ask-me
http://localhost:8080/path and https://example.com:443/x@y, git@github.com:a/b.git, ASIA, AKIA, eyJ, dapi, SG.
-----BEGIN CERTIFICATE-----
MIIEpAIBAAKCAQEA7cV3nZ8kR4f9aQ2mX7bL0wJalrXUtnFEMIK7MDENGbPxRf9A
-----END CERTIFICATE-----
Look for -----BEGIN PRIVATE KEY----- in the file; if it is there, remove it. ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIL
if token == "abc": return  # data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk
"""


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets of this process, for the time of a test."""
    monkeypatch.setattr(secrets, "_own", secrets._OwnSecrets())
    secrets.hide([OWN, "short"])


def in_pieces(text: str, size: int) -> str:
    state, shown = Secrets(), ""
    for at in range(0, len(text), size):
        state, more = state.feed(text[at : at + size])
        shown += more
    return shown + state.end()[1]


@every("name", TEXTS)
def test_a_secret_is_removed_whole_and_in_pieces_and_the_rest_stays(name: str) -> None:
    text, secret = TEXTS[name]
    for whole in (f"See {text}", f"See {text} and more.\nNext line."):
        shown = without_secrets(whole)
        assert secret not in shown
        assert shown.count(REMOVED) == 1
        assert shown.startswith("See ")
        assert without_secrets(shown) == shown
        assert all(in_pieces(whole, size) == shown for size in (1, 2, 3, 7, 50))
    assert "Next line." in shown


@every("name", TEXTS)
def test_the_log_knows_the_same_secrets(name: str) -> None:
    text, secret = TEXTS[name]
    redactor = Redactor([OWN])
    shown = redactor.text(f"See {text} and more.")
    assert secret not in shown
    assert HIDDEN in shown
    assert secret not in redactor.line(repr(text))


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ('{"missing": "client_secret", "auth": "basic"}', None),
        ("{'grant': 'access_token', 'auth method': 'basic'}", None),
        ('{\\"kind\\": \\"token\\", \\"scope\\": \\"all\\"}', None),
        ('["token","realm": "x"]', None),
        ("token= auth=basic", None),
        ("Authorization: Accept: none", None),
        ('("token", "hunter22", "auth")', '("token", "…", "auth")'),
        ('{"token": "hunter22", "auth": "basic"}', '{"token": "…", "auth": "basic"}'),
        ("token= aHVudGVyMjI=", "token= …"),
        ("token=hunter22 auth=basic", "token=… auth=basic"),
        ("Authorization: hunter22", "Authorization: …"),
    ],
)
def test_the_log_hides_values_and_never_the_next_name(line: str, shown: str | None) -> None:
    assert Redactor().line(line) == (line if shown is None else shown)


def test_what_is_no_secret_stays_as_it_is() -> None:
    assert without_secrets(ORDINARY) == ORDINARY
    assert in_pieces(ORDINARY, 3) == ORDINARY


def test_only_what_may_be_a_secret_waits() -> None:
    state, shown = Secrets().feed("The key is sk-")
    assert shown == "The key is sk-"
    state, shown = state.feed("4f9aQ2mX7b")
    assert shown == ""
    state, shown = state.feed("L0cV3nZ8kR, keep it")
    assert shown == f"{REMOVED}, keep it"
    state, shown = state.feed(" as token: yes")
    assert shown == " as token:"
    assert state.feed(" of course")[1] == " yes of course"


def test_a_secret_of_any_length_is_removed_and_what_waits_is_bounded() -> None:
    state, shown = Secrets(), ""
    for _ in range(1_000):
        state, more = state.feed("eyJhbGciOiJIUzI1NiJ9.eyJz" if not shown else "dWIiOiIxMjM0In0dozjgNryP4J3")
        shown += more
        assert len(state.patterns.held) <= 300
    assert shown + state.feed(" end")[1] == f"eyJ{REMOVED} end"


def test_it_can_be_switched_off() -> None:
    secrets.switch(on=False)
    text = TEXTS["GitHub"][0]
    assert without_secrets(text) == text == in_pieces(text, 4)


PIECES = [piece for text, _ in TEXTS.values() for piece in (text, text[:9], text[9:])]


@given(st.lists(st.sampled_from([*PIECES, " ", "\n"]), max_size=8), st.integers(1, 40))
def test_pieces_give_what_the_whole_gives(parts: list[str], size: int) -> None:
    text = "".join(parts)
    assert in_pieces(text, size) == without_secrets(text)


@pytest.mark.parametrize(
    "piece", ["sk-", "token=", "token=abc1", "://a:", "eyJ", "a", "x:", "-----BEGIN PRIVATE KEY-----\n"]
)
def test_the_time_grows_with_the_text_and_no_faster(piece: str) -> None:
    text = piece * (100_000 // len(piece))
    begun = time.process_time()
    without_secrets(text)
    assert time.process_time() - begun < 5
