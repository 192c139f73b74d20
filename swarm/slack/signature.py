"""Verifies HTTP requests from Slack: https://docs.slack.dev/authentication/verifying-requests-from-slack/.

slack_sdk compares the signatures. The checks before that are made here, because slack_sdk treats a malformed header as
a programming error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from slack_sdk.signature import SignatureVerifier

from swarm.domain.errors import BadRequest, Unauthorized

_TIMESTAMP = re.compile(r"[0-9]{1,12}")
_SIGNATURE = re.compile(r"v0=[0-9a-f]{64}")


def verify(verifier: SignatureVerifier, headers: Mapping[str, str], body: bytes) -> None:
    """Returns if Slack signed the body within the last five minutes.

    Otherwise raises Unauthorized, or BadRequest for a body that is not UTF-8. A replay within the five minutes passes;
    its ``event_id`` is recognised later.
    """
    timestamp = headers.get("x-slack-request-timestamp", "")
    signature = headers.get("x-slack-signature", "")
    if not _TIMESTAMP.fullmatch(timestamp) or not _SIGNATURE.fullmatch(signature):
        raise Unauthorized("The request has no Slack signature.")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest("The body is not UTF-8.") from error
    if not verifier.is_valid(text, timestamp, signature):
        raise Unauthorized("Slack's signature does not match, or is older than five minutes.")
