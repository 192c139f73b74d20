"""What whoever watches is told of our calls of Slack."""

from __future__ import annotations

import pytest

from swarm.domain.model.deliveries import Answer, Delivery, DeliveryAccepted, DeliveryKind
from swarm.domain.watchers import SlackCall, Watcher
from swarm.telemetry.setup import WatchedSender
from tests.contract.slack.workspace import Workspace, delivery

pytestmark = pytest.mark.req("OPS-06")

NOWHERE = "http://127.0.0.1:9/api/"
"""Nobody listens at the discard port."""


class Notebook(Watcher):
    """Writes everything down."""

    def __init__(self) -> None:
        self.calls: list[SlackCall] = []
        self.tried: list[tuple[Delivery, Answer, float]] = []

    def slack_called(self, call: SlackCall) -> None:
        self.calls.append(call)

    def delivery_tried(self, delivery: Delivery, answer: Answer, seconds: float) -> None:
        self.tried.append((delivery, answer, seconds))


@pytest.mark.parametrize(
    ("fault", "result"),
    [
        (None, "ok"),
        ({"kind": "error", "error": "not_in_channel"}, "refused"),
        ({"kind": "http_429", "seconds": 1}, "ratelimited"),
        ({"kind": "error", "error": "team_added_to_org"}, "not_sent"),
        ({"kind": "cut_after_accept"}, "in_doubt"),
    ],
)
async def test_each_call_is_told_with_what_became_of_it(
    workspace: Workspace, fault: dict[str, object] | None, result: str
) -> None:
    notebook = Notebook()
    gateway = workspace.gateway(watcher=notebook)
    if fault:
        await workspace.fault(method="chat.postMessage", **fault)  # type: ignore[arg-type]
    sender = WatchedSender(gateway, notebook)
    wanted = delivery()
    await sender.ready(wanted)
    answer = await sender.deliver(wanted)
    await gateway.close()
    assert [(call.method, call.result) for call in notebook.calls] == [("chat.postMessage", result)]
    assert notebook.calls[0].seconds > 0
    assert [(tried, told) for tried, told, _ in notebook.tried] == [(wanted, answer)]
    assert isinstance(answer, DeliveryAccepted) is (result == "ok")


async def test_a_call_that_never_left_is_told_as_well(workspace: Workspace) -> None:
    notebook = Notebook()
    gateway = workspace.gateway(watcher=notebook, base_url=NOWHERE)
    await gateway.deliver(delivery(DeliveryKind.REACTION, target_ts="1700000000.000100"))
    await gateway.close()
    assert [(call.method, call.result) for call in notebook.calls] == [("reactions.add", "not_sent")]
