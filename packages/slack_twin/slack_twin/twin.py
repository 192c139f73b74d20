"""Assembles the twin: one workspace and all its components."""

from dataclasses import dataclass, field

from slack_twin import seed as seeds
from slack_twin.clock import Clock
from slack_twin.delivery import Delivery
from slack_twin.faults import Faults
from slack_twin.feed import Feed
from slack_twin.files import Files
from slack_twin.interactions import Interactions
from slack_twin.limits import Limits
from slack_twin.seed import Seed
from slack_twin.settings import Settings
from slack_twin.signed_http import SignedHttp
from slack_twin.socket_mode import Sockets
from slack_twin.web_api import WebApi
from slack_twin.workspace import Workspace


@dataclass(kw_only=True)
class Twin:
    """A workspace with its entry points. Create it with `build_twin`."""

    workspace: Workspace
    sockets: Sockets
    http: SignedHttp
    faults: Faults
    limits: Limits
    delivery: Delivery
    web_api: WebApi
    feed: Feed
    interactions: Interactions
    planted: list[Seed] = field(default_factory=list)  # the seeds that `reset` restores

    @property
    def clock(self) -> Clock:
        return self.workspace.clock

    def plant(self, seed: Seed) -> None:
        """Adds a seed to the workspace and to the state that `reset` restores. Raises KeyError for an unknown name."""
        seeds.plant(self.workspace, seed)
        self.planted.append(seed)

    async def reset(self, *, to_default: bool = False) -> None:
        """Restores the seed and the time, without messages, faults and journals. Keeps connections and counters."""
        await self.delivery.stop()
        self.faults.clear()
        self.limits.clear()
        self.web_api.journal.clear()
        self.delivery.journal.clear()
        self.workspace.clear()
        self.workspace.reset_clock()
        if to_default:
            self.planted[1:] = []
        for seed in self.planted:
            seeds.plant(self.workspace, seed)
        self.sockets.close_unknown(self.workspace.directory.apps.keys())
        self.feed.reload()

    async def close(self) -> None:
        """Ends deliveries and streams. Idempotent."""
        self.feed.close()
        self.sockets.close_unknown(())
        await self.delivery.stop()
        await self.http.close()


def build_twin(
    *, seed: Seed = seeds.DEFAULT, rates: bool = True, clock: Clock | None = None, settings: Settings | None = None
) -> Twin:
    """Returns a twin with `seed`; `rates` enables Slack's rate limits, and `settings` limits the stored data."""
    settings = settings or Settings()
    workspace = Workspace(
        clock=clock or Clock(),
        files=Files(settings.file_cap_bytes),
        retention=settings.retention_messages,
        own_events=settings.own_events,
    )
    sockets, http = Sockets(workspace.clock), SignedHttp(workspace.clock)
    faults, limits = Faults(), Limits(workspace.clock, enabled=rates and settings.rates)
    delivery = Delivery(workspace, sockets, http, faults, limits)
    twin = Twin(
        workspace=workspace,
        sockets=sockets,
        http=http,
        faults=faults,
        limits=limits,
        delivery=delivery,
        web_api=WebApi(workspace, sockets, faults, limits),
        feed=Feed(workspace),
        interactions=Interactions(workspace, delivery),
    )
    twin.plant(seed)
    workspace.listeners += [twin.delivery.on_change, twin.feed.on_change]
    return twin
