"""A day of trouble in fast motion at real vendors' adapters (FAULTS J, L06).

Gateway, controller and two workers as processes over a real database; emulated Daytona and Modal,
driven by their vendors' clients, and light local sandboxes; policies that mix them. Every way of
`vendor_trouble` takes its share of the calls until all runs have ended; then everything heals, and
nothing may be left. What takes a vendor minutes takes seconds here.
"""

import json
import random
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import attrs
import trio

from deepline.adapters.daytona import DaytonaSettings, opened_daytona
from deepline.adapters.modal import ModalAccount, opened_modal
from deepline.adapters.system_clock import SystemClock
from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.json_value import Json
from deepline.core.model.run import RunStatus
from deepline.core.model.sandbox import Operation, Resources
from deepline.testing import Way
from deepline.testing.emulators import DaytonaEmulator, ModalEmulator, modal_emulator
from deepline.testing.emulators.daytona import KEY, ORGANISATION
from deepline.testing.emulators.modal import ACCOUNT
from tests.adapters.daytona.emulation import started_emulator
from tests.soak.storm import database_server
from tests.support.fleet import new_id
from tests.support.light.deployment import Deployment
from tests.support.light.roles import TROUBLE
from tests.support.light.world import LightWorld, light_world
from tests.support.postgres import open_directory
from tests.support.public_api import PublicApi
from tests.support.remnants import nothing_left
from tests.support.vendor_trouble import DAYTONA, MODAL, VendorWay

NAMES = ("gateway", "controller", "worker", "worker-2")
BACKEND = "day"
PROVIDERS = ("daytona", "modal", "local")
ATTEMPTS = "50"
FELL = "sandbox_operation.fell_back"
POLICIES: Sequence[Mapping[str, Json]] = (
    *({"id": f"day-{name}", "backend": BACKEND, "providers": [name]} for name in PROVIDERS),
    {
        "id": "day-trial",
        "backend": BACKEND,
        "providers": list(PROVIDERS),
        "canaryProvider": "modal",
        "canaryBasisPoints": 3_000,
        "fallbackProviders": ["local"],
    },
)


@attrs.frozen(kw_only=True)
class Script:
    """One play: its words, and how its run may end."""

    words: Json
    ends: frozenset[RunStatus]
    cancelled: bool = False


@attrs.frozen(kw_only=True)
class Account:
    """What came of a day."""

    runs: int
    ends: Mapping[str, int]
    attempts: int
    sandboxes: Mapping[str, int]
    """How many there ever were, by provider."""
    met: Mapping[str, int]
    """How often each way was met."""
    fallbacks: int
    """How many attempts another provider of their policy served."""
    until_ended_s: float
    until_quiet_s: float

    def __str__(self) -> str:
        """For who waited for it."""
        lines = [
            f"{self.runs} runs, {self.attempts} attempts: {_counted(self.ends)}",
            f"sandboxes: {_counted(self.sandboxes)}; {self.fallbacks} fell back",
            f"ended after {self.until_ended_s:.0f} s, quiet {self.until_quiet_s:.0f} s later",
            *(f"{count:>6}  {way}" for way, count in self.met.items()),
        ]
        return "\n".join(lines)


@attrs.define(eq=False, kw_only=True)
class VendorDay:
    """One day over everything that takes part in it."""

    deployment: Deployment
    world: LightWorld
    daytona: DaytonaEmulator
    modal: ModalEmulator
    switch: Path
    share: float
    strangers: frozenset[str] = attrs.field(init=False)

    def pass_by(
        self, runs: int, seed: str, *, a_second: float, trouble_s: float, patience_s: float
    ) -> Account:
        """Live through it, with trouble until all have ended or for `trouble_s`.

        Raises `AssertionError` for what should not be.
        """
        chance = random.Random(seed)
        self.strangers = frozenset(trio.run(_strangers, self.daytona, self.modal))
        self.deployment.begin(*NAMES)
        self._trouble()
        begun = time.monotonic()
        scripts = self._submit(runs, chance, a_second)
        truth = self.deployment.truth
        while not truth.ended(list(scripts)) and time.monotonic() < begun + trouble_s:
            time.sleep(0.1)
        met = self._heal()
        truth.wait_ended(list(scripts), within_s=patience_s)
        ended = time.monotonic()
        self.deployment.assert_sound(within_s=patience_s)
        self._wait_for_vendors(patience_s)
        quiet = time.monotonic()
        self._check(scripts)
        return Account(
            runs=runs,
            ends=Counter(truth.statuses(list(scripts)).values()),
            attempts=truth.value("select count(*) from deepline.attempts"),
            sandboxes=dict(
                truth.rows(
                    "select provider, count(*) from deepline.sandbox_usage group by 1 order by 1"
                )
            ),
            met=met,
            fallbacks=truth.value("select count(*) from deepline.decisions where rule = %s", FELL),
            until_ended_s=ended - begun,
            until_quiet_s=quiet - ended,
        )

    def _trouble(self) -> None:
        self.switch.touch()
        for way in DAYTONA:
            self.daytona.fault(way.rule(self.share))
        for way in MODAL:
            self.modal.fault(way.rule(self.share))

    def _heal(self) -> Mapping[str, int]:
        """Let nothing fail any more; how often each way was met."""
        self.switch.unlink()
        met = _named("daytona", DAYTONA, self.daytona.faults_hit())
        met |= _named("modal", MODAL, self.modal.faults_hit())
        self.daytona.clear_faults()
        self.modal.clear_faults()
        noted = self.switch.with_suffix(".met")
        local = Counter(noted.read_text().split() if noted.exists() else [])
        return met | {f"local: {way.value}": local[way.value] for way in Way}

    def _submit(self, runs: int, chance: random.Random, a_second: float) -> dict[RunId, Script]:
        """Submit them at a steady pace, a provider's after another's; some are cancelled."""
        scripts: dict[RunId, Script] = {}
        begun = time.monotonic()
        api = self.deployment.api
        batch = max(len(POLICIES), round(a_second))
        while len(scripts) < runs:
            time.sleep(max(0.0, begun + len(scripts) / a_second - time.monotonic()))
            made = {new_id("run"): drawn(chance) for _ in range(min(batch, runs - len(scripts)))}
            for at, policy in enumerate(POLICIES):
                some = dict(list(made.items())[at :: len(POLICIES)])
                if some:
                    self.deployment.submit_as(
                        {run_id: script.words for run_id, script in some.items()},
                        {"runtimeSandboxPlacementPolicyId": policy["id"]},
                    )
            for run_id, script in made.items():
                if script.cancelled:
                    _cancel(api, run_id)
            scripts |= made
        return scripts

    def _wait_for_vendors(self, patience_s: float) -> None:
        """Until no sandbox of ours is left at any vendor, and none of others is missing."""
        until = time.monotonic() + patience_s
        while (left := self._alive()) != self.strangers:
            assert time.monotonic() < until, f"left or missing: {left ^ self.strangers}"
            time.sleep(0.2)

    def _alive(self) -> frozenset[str]:
        return frozenset(
            [
                *(one.id for one in self.daytona.sandboxes()),
                *(one.sandbox_id for one in self.modal.sandboxes()),
            ]
        )

    def _check(self, scripts: Mapping[RunId, Script]) -> None:
        truth, statuses = self.deployment.truth, self.deployment.truth.statuses(list(scripts))
        wrong = {
            run_id: truth.rules(run_id)
            for run_id, script in scripts.items()
            if statuses[run_id] not in script.ends
        }
        assert not wrong, wrong
        starts = self.world.starts()
        again = {run_id: starts[run_id] for run_id in scripts if starts.get(run_id, 0) > 1}
        assert not again, f"plays that were started again: {again}"
        late = truth.rows(_BILLED_TOO_LONG)
        assert not late, f"billed beyond the first acceptance: {late}"
        assert not self.deployment.unexpected_ends(), self.deployment.unexpected_ends()


def drawn(chance: random.Random) -> Script:
    """A play by chance; most are short and end well."""
    pause: Json = ["pause", round(chance.uniform(0, 1.5), 2)]
    kinds = {
        "answers": (80, Script(words=[pause, ["answer", 1]], ends=_DONE)),
        "fails": (5, Script(words=[pause, ["fail", "no use"]], ends=_FAILED)),
        "vanishes": (5, Script(words=[pause, ["vanish"]], ends=_FAILED)),
        "cancelled": (
            10,
            Script(words=[["pause", 2.0], ["answer", 1]], ends=_CANCELLED, cancelled=True),
        ),
    }
    [(_, script)] = chance.choices(list(kinds.values()), [share for share, _ in kinds.values()])
    return script


@contextmanager
def vendor_day(share: float) -> Iterator[VendorDay]:
    """Everything that a day needs, for the length of a block; nothing of it is left after it."""
    with open_directory() as directory:
        with ExitStack() as stack:
            _, dsn = stack.enter_context(database_server(directory))
            world = stack.enter_context(light_world(directory))
            daytona = stack.enter_context(started_emulator(directory / "daytona"))
            modal = stack.enter_context(modal_emulator(directory / "modal"))
            daytona.behave(destroy_delay_s=1.0, negative_cache_s=1.0, list_lag_s=0.5)
            modal.behave(terminate_delay_s=0.5, negative_cache_s=1.0, list_lag_s=0.5)
            switch = directory / "trouble"
            settings = _settings(directory, daytona, modal, switch)
            deployment = Deployment(dsn, directory, world, names=NAMES, settings=settings)
            stack.callback(deployment.close)
            yield VendorDay(
                deployment=deployment,
                world=world,
                daytona=daytona,
                modal=modal,
                switch=switch,
                share=share,
            )
        assert nothing_left(directory), "processes are left"


def _settings(
    directory: Path, daytona: DaytonaEmulator, modal: ModalEmulator, switch: Path
) -> Mapping[str, str]:
    policies = directory / "policies.json"
    policies.write_text(json.dumps(list(POLICIES)))
    return {
        TROUBLE: str(switch),
        "DEEPLINE_PLAY_RUNNER_BACKEND": BACKEND,
        "DEEPLINE_PLACEMENT_POLICIES_FILE": str(policies),
        "DEEPLINE_ENV": "production",
        "DEEPLINE_ALLOW_TEST_FAULTS": "no",
        "DEEPLINE_WORKER_SLOTS": "24",
        "ABSURD_PLAY_RUN_MAX_ATTEMPTS": ATTEMPTS,
        "DEEPLINE_CREATE_MAY_LAND_SECONDS": "6",
        "DEEPLINE_ORPHAN_SWEEP": "enforce",
        "DEEPLINE_ORPHAN_SWEEP_INTERVAL_SECONDS": "5",
        "DEEPLINE_ORPHAN_GRACE_SECONDS": "20",
        "DEEPLINE_ORPHAN_UNKNOWN_SECONDS": "60",
        "DAYTONA_API_KEY": KEY,
        "DAYTONA_API_URL": daytona.api_url,
        "DAYTONA_ORGANIZATION_ID": ORGANISATION,
        "MODAL_TOKEN_ID": ACCOUNT[0],
        "MODAL_TOKEN_SECRET": ACCOUNT[1],
        "MODAL_SERVER_URL": modal.url,
    }


async def _strangers(daytona: DaytonaEmulator, modal: ModalEmulator) -> list[str]:
    """A sandbox of another deployment at each vendor; answers their ids."""
    theirs = DaytonaSettings(api_key=KEY, api_url=daytona.api_url, owner="staging")
    account = ModalAccount(
        token_id=ACCOUNT[0], token_secret=ACCOUNT[1], server_url=modal.url, owner="staging"
    )
    async with (
        opened_daytona(theirs) as at_daytona,
        opened_modal(account, SystemClock()) as at_modal,
    ):
        return [
            (await provider.create(_strange(provider.name), Resources())).sandbox_id
            for provider in (at_daytona, at_modal)
        ]


def _strange(provider: str) -> Operation:
    token = secrets.token_hex(20)
    return Operation(
        key=f"strange-{token}",
        token=token,
        name=f"dl-{token}",
        provider=provider,
        org_id=OrgId("org"),
        run_id=RunId("strange"),
        attempt=1,
        mark="st-another",
    )


def _cancel(api: PublicApi, run_id: RunId) -> None:
    api.call(lambda client: client.cancel(run_id, "enough"))


def _named(vendor: str, ways: Sequence[VendorWay], hits: Sequence[int]) -> dict[str, int]:
    return {f"{vendor}: {way.what}": hit for way, hit in zip(ways, hits, strict=True)}


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(counts.items())) or "none"


_DONE = frozenset({RunStatus.COMPLETED})
_FAILED = frozenset({RunStatus.FAILED})
_CANCELLED = frozenset({RunStatus.CANCELLED, RunStatus.COMPLETED})
_BILLED_TOO_LONG = """
    select u.run_id, u.provider, u.ended_at, min(e.at)
    from deepline.sandbox_usage u
    join deepline.cleanup_events e using (run_id, attempt, provider, sandbox_id)
    where e.kind = 'provider_delete_accepted'
    group by u.run_id, u.attempt, u.provider, u.sandbox_id, u.ended_at, u.started_at
    having u.ended_at is distinct from greatest(u.started_at, min(e.at))
"""
