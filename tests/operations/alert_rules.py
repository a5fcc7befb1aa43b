"""The alert rules that we ship, and which of them fire over a recording."""

from collections.abc import Sequence
from typing import Any

import attrs
import yaml  # type: ignore[import-untyped]  # comes without stubs

from tests.docs.pages import ROOT, text_of
from tests.support.promql import Node, parse, seconds
from tests.support.recording import Recording

RULES = ROOT / "docs" / "operations" / "alerts.yml"


@attrs.frozen
class AlertRule:
    """One rule: it fires once its expression has had a value for `for_s`."""

    name: str
    text: str
    expression: Node
    for_s: float
    severity: str
    summary: str

    def fires(self, recording: Recording) -> bool:
        """Whether it fired at any moment of the recording, looked at with each scrape."""
        since: float | None = None
        for scrape in recording.scrapes:
            value = recording.at(self.expression, scrape.at_s)
            if not value:
                since = None
                continue
            since = scrape.at_s if since is None else since
            if scrape.at_s - since >= self.for_s:
                return True
        return False


def rules() -> Sequence[AlertRule]:
    """Every rule of the file, in its order."""
    document: Any = yaml.safe_load(text_of(RULES))
    return [
        AlertRule(
            name=rule["alert"],
            text=rule["expr"],
            expression=parse(rule["expr"]),
            for_s=seconds(rule.get("for", "0s")),
            severity=rule["labels"]["severity"],
            summary=rule["annotations"]["summary"],
        )
        for group in document["groups"]
        for rule in group["rules"]
    ]


def fired(recording: Recording) -> set[str]:
    """The names of the alerts that fire."""
    return {rule.name.removeprefix("Deepline") for rule in rules() if rule.fires(recording)}
