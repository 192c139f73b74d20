"""Agents behind TLS."""

from __future__ import annotations

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from swarm.domain.answers.events import Broken, Finished
from tests.agents.asking import reached, run
from tests.support.agui_server import agui_server, answering

pytestmark = pytest.mark.req("STREAM-01", "STREAM-07")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for this machine that nobody has signed but itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "agent of the tests")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(secret + made.public_bytes(pem))
    return path


@pytest.fixture
def behind_tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


async def test_a_certificate_that_nobody_signed_is_not_trusted(behind_tls: ssl.SSLContext) -> None:
    async with agui_server(behind_tls) as server:
        server.on("/", *answering("hi"))
        assert await run(server.url) == [Broken(reason="its certificate is not trusted")]
        async with reached(server.url) as agent:
            assert (await agent.health()).detail == "its certificate is not trusted"
        assert not server.requests


async def test_a_certificate_that_the_operator_trusts_will_do(behind_tls: ssl.SSLContext, certificate: Path) -> None:
    trusting = ssl.create_default_context(cafile=str(certificate))
    async with agui_server(behind_tls) as server:
        server.on("/", *answering("hi"))
        assert (await run(server.url, tls=trusting))[-1] == Finished()


async def test_a_certificate_for_another_name_is_not_trusted(behind_tls: ssl.SSLContext, certificate: Path) -> None:
    trusting = ssl.create_default_context(cafile=str(certificate))
    async with agui_server(behind_tls) as server:
        elsewhere = server.url.replace("127.0.0.1", "localhost")
        assert await run(elsewhere, tls=trusting) == [Broken(reason="its certificate is not trusted")]


async def test_an_agent_that_speaks_no_tls_where_it_should() -> None:
    async with agui_server() as server:
        server.on("/", *answering("hi"))
        reason = "no secure connection to it is possible"
        assert await run(server.url.replace("http://", "https://")) == [Broken(reason=reason)]
