"""The twin put together: one workspace and everything around it."""

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
    """A workspace with its doors. Make one with `build_twin`."""

    workspace: Workspace
    sockets: Sockets
    http: SignedHttp
    faults: Faults
    limits: Limits
    delivery: Delivery
    web_api: WebApi
    feed: Feed
    interactions: Interactions
    planted: list[Seed] = field(default_factory=list)  # what `reset` goes back to

    @property
    def clock(self) -> Clock:
        return self.workspace.clock

    def plant(self, seed: Seed) -> None:
        """Add to the workspace and to what `reset` goes back to. Raises KeyError with an unknown name."""
        seeds.plant(self.workspace, seed)
        self.planted.append(seed)

    async def reset(self, *, to_default: bool = False) -> None:
        """Back to the seed: no messages, no faults, no journals. Connections stay, clock and numbers go on."""
        await self.delivery.stop()
        self.faults.clear()
        self.limits.clear()
        self.web_api.journal.clear()
        self.delivery.journal.clear()
        self.workspace.clear()
        if to_default:
            self.planted[1:] = []
        for seed in self.planted:
            seeds.plant(self.workspace, seed)
        self.sockets.close_unknown(self.workspace.directory.apps.keys())
        self.feed.reload()

    async def close(self) -> None:
        """End deliveries and streams. Idempotent."""
        self.feed.close()
        self.sockets.close_unknown(())
        await self.delivery.stop()
        await self.http.close()


def build_twin(
    *, seed: Seed = seeds.DEFAULT, rates: bool = True, clock: Clock | None = None, settings: Settings | None = None
) -> Twin:
    """A workspace with `seed`; `rates` switches Slack's rate limits, `settings` says how much is kept."""
    settings = settings or Settings()
    workspace = Workspace(
        clock=clock or Clock(), files=Files(settings.file_cap_bytes), retention=settings.retention_messages
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
