"""Runs on a gateway over a store in memory, as the commands for people meet them."""

from collections.abc import Sequence

import attrs

from deepline.adapters.http.api_client import ApiAddress
from deepline.cli.home import Home
from deepline.cli.people.gateways import Gateway
from deepline.cli.people.news import News
from deepline.core.model.claim import Fresh
from deepline.core.model.json_value import Json
from deepline.ports.sheets import RowOutcome
from tests.gateway.deployment import ALICE, Deployment, key_of


@attrs.define
class Told:
    """A report that keeps what it is told."""

    news: list[News] = attrs.field(factory=list)

    def tell(self, news: News) -> None:
        """Keep it."""
        self.news.append(news)

    @property
    def kinds(self) -> list[str]:
        """What kinds of news came, in order."""
        return [one.kind for one in self.news]


def address_of(deployment: Deployment) -> ApiAddress:
    """Where it is, with the key of its usual user."""
    return ApiAddress(deployment.url, ALICE)


def gateway_of(deployment: Deployment, home: Home) -> Gateway:
    """The same, as the command line finds it."""
    return Gateway(home=home, url=deployment.url, api_key=ALICE)


async def add_sheet(
    deployment: Deployment, fresh: Fresh, rows: Sequence[RowOutcome], name: str = "contacts"
) -> None:
    """Finish rows of a running attempt."""
    key = key_of(fresh)
    await deployment.store.sheets.open_sheet(key, name, total=len(rows))
    await deployment.store.sheets.finish_rows(key, name, rows)


async def say(deployment: Deployment, fresh: Fresh, kind: str, **payload: Json) -> None:
    """Send one event, as the attempt's runner would."""
    events = deployment.store.run_events
    count = len(await events.read(fresh.attempt.ref.run_id, after=0, limit=500))
    answer = await deployment.client.post(
        "/api/v1/runner/events",
        json={"events": [{"eventId": f"e{count}", "kind": kind, "payload": payload}]},
        headers=await deployment.runner(fresh),
    )
    assert answer.status_code == 200, answer.text
