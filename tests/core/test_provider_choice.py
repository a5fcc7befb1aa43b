"""Which providers a run's sandbox is asked for, in which order (C14, C45, Q23)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.canary import select
from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.launch import Launch
from deepline.core.model.placement import PlacementPolicy
from deepline.core.placement import POLICIES
from deepline.core.provider_choice import Chosen, NoneHere, choose

TRIAL = PlacementPolicy(
    policy_id="trial",
    backend="trial",
    cleanup_providers=("daytona", "modal"),
    canary_provider="modal",
    canary_basis_points=5_000,
)
SPARE = PlacementPolicy(
    policy_id="spare",
    backend="spare",
    cleanup_providers=("daytona", "modal"),
    fallback_providers=("modal",),
)
TABLE = (*POLICIES, TRIAL, SPARE)
BOTH = frozenset({"daytona", "modal"})


def launch(policy_id: str | None = None, backend: str | None = None, run: str = "r") -> Launch:
    """A launch placed so."""
    return Launch(
        run_id=RunId(run),
        org_id=OrgId("org"),
        play_name="play",
        graph_hash="graph",
        base_url="https://gateway.example",
        runtime_backend=backend,
        placement_policy_id=policy_id,
    )


@pytest.mark.parametrize(
    ("policy_id", "backend", "configured", "providers", "rule"),
    [
        pytest.param(None, None, "local", ("local",), "usual", id="neither-means-our-own"),
        pytest.param(None, "modal", "daytona", ("modal",), "usual", id="the-backend-when-alone"),
        pytest.param("modal", "daytona", "daytona", ("modal",), "usual", id="the-policy-before-it"),
        pytest.param(
            "gone", "daytona", "local", ("daytona",), "usual", id="an-unknown-policy-says-nothing"
        ),
        pytest.param(None, "own", "own", ("own",), "backend", id="a-backend-without-policy"),
        pytest.param("spare", None, "x", ("daytona", "modal"), "usual", id="its-own-fallback"),
        pytest.param(
            None, None, "daytona_modal_canary", ("daytona",), "usual", id="a-backend-on-trial"
        ),
    ],
)  # fmt: skip
def test_who_is_asked(
    policy_id: str | None,
    backend: str | None,
    configured: str,
    providers: tuple[str, ...],
    rule: str,
) -> None:
    """A policy decides alone; without one the backend does, and the worker's own at last."""
    choice = choose(
        launch(policy_id, backend),
        configured,
        TABLE,
        available={"local", "own", *BOTH},
        production=True,
    )

    assert isinstance(choice, Chosen)
    assert choice.providers == providers
    assert choice.why.rule == f"provider_choice.{rule}"


@given(run=st.text(min_size=1, max_size=20), production=st.booleans())
def test_the_canary_has_its_share(run: str, *, production: bool) -> None:
    """A chosen run goes to the provider on trial and has the usual one to fall back on (C45)."""
    choice = choose(launch("trial", run=run), "trial", TABLE, available=BOTH, production=production)

    chosen = select(TRIAL, run, production=production).canary is not None
    assert isinstance(choice, Chosen)
    assert choice.providers == (("modal", "daytona") if chosen else ("daytona",))
    assert (choice.why.rule == "provider_choice.canary") is chosen


def test_a_share_of_nothing_and_of_all() -> None:
    """The bounds of the share are meant as they stand, and outside production nobody is chosen."""
    runs = [f"run-{number}" for number in range(50)]

    def chosen(basis_points: int, *, production: bool = True) -> set[str]:
        policy = PlacementPolicy(
            policy_id="p",
            backend="p",
            cleanup_providers=("daytona", "modal"),
            canary_provider="modal",
            canary_basis_points=basis_points,
        )
        choices = [
            choose(launch("p", run=run), "p", (policy,), available=BOTH, production=production)
            for run in runs
        ]
        return {choice.providers[0] for choice in choices if isinstance(choice, Chosen)}

    assert chosen(0) == {"daytona"}
    assert chosen(10_000) == {"modal"}
    assert chosen(10_000, production=False) == {"daytona"}


def test_only_what_the_worker_has() -> None:
    """A provider that the worker lacks is passed over; with none left the launch is refused."""
    some = choose(launch("spare"), "spare", TABLE, available={"modal"}, production=True)
    none = choose(launch("spare"), "spare", TABLE, available={"local"}, production=True)

    assert isinstance(some, Chosen)
    assert some.providers == ("modal",)
    assert isinstance(none, NoneHere)
    assert none.asked_for == "spare"
