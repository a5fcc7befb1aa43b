"""What a worker must have before it boots (C01, I45)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.environment import (
    BACKEND_VARIABLE,
    FORBIDDEN_ENVIRONMENT,
    REQUIRED_ENVIRONMENT,
    BackendUnknown,
    EnvironmentIncomplete,
    EnvironmentReady,
    SigningKeyRequired,
    check_environment,
    configured_backend,
    provider_credentials,
    sandbox_providers,
)
from deepline.core.model.placement import PlacementPolicy
from deepline.core.placement import POLICIES

GENERAL = dict.fromkeys(REQUIRED_ENVIRONMENT, "set")
POSTGRES, TOKEN, RECEIPTS = REQUIRED_ENVIRONMENT
BACKENDS = ("local", "daytona", "modal", "daytona_modal_canary")


@pytest.mark.parametrize(
    ("environment", "backend"),
    [
        pytest.param({}, "daytona", id="C01-default"),
        pytest.param({BACKEND_VARIABLE: " \t"}, "daytona", id="C01-blank"),
        pytest.param({BACKEND_VARIABLE: " Modal\n"}, "modal", id="C01-normalised"),
    ],
)
def test_the_backend_is_named_by_the_environment(environment: dict[str, str], backend: str) -> None:
    """The backend is trimmed and in one spelling; without one it is Daytona."""
    assert configured_backend(environment) == backend


@pytest.mark.parametrize(
    ("environment", "missing"),
    [
        pytest.param(
            {}, ("DAYTONA_API_KEY", POSTGRES, TOKEN, RECEIPTS), id="C01-nothing-set-provider-first"
        ),
        pytest.param(
            {BACKEND_VARIABLE: "daytona_modal_canary"},
            ("DAYTONA_API_KEY", "MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET", POSTGRES, TOKEN, RECEIPTS),
            id="C01-two-providers-in-table-order",
        ),
        pytest.param(
            {**GENERAL, "DAYTONA_API_KEY": ""}, ("DAYTONA_API_KEY",), id="C01-empty-is-missing"
        ),
        pytest.param(
            {**GENERAL, "DAYTONA_API_KEY": "k", TOKEN: " \t\n"}, (TOKEN,), id="C01-blank-is-missing"
        ),
        pytest.param(
            {BACKEND_VARIABLE: "local", TOKEN: "t"}, (POSTGRES, RECEIPTS), id="C01-local-no-key"
        ),
    ],
)
def test_all_missing_names_are_told_at_once_and_in_order(
    environment: dict[str, str], missing: tuple[str, ...]
) -> None:
    """One error names every missing variable, the providers' first, comma-separated."""
    decision = check_environment(environment, POLICIES)

    assert isinstance(decision, EnvironmentIncomplete)
    assert decision.missing == missing
    assert decision.message.endswith(", ".join(missing))
    assert decision.why.rule == "environment.incomplete"


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_complete_environment_boots(backend: str) -> None:
    """With everything set the worker knows its backend and the providers it can delete from."""
    credentials = dict.fromkeys(provider_credentials(backend, POLICIES), "secret")

    decision = check_environment({**GENERAL, **credentials, BACKEND_VARIABLE: backend}, POLICIES)

    assert isinstance(decision, EnvironmentReady)
    assert decision.backend == backend
    assert decision.providers == sandbox_providers(backend, POLICIES)
    assert "secret" not in repr(decision)


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_required_set_holds_a_signing_key(backend: str) -> None:
    """Required and forbidden variables are disjoint, for every backend."""
    required = {*REQUIRED_ENVIRONMENT, *provider_credentials(backend, POLICIES)}

    assert required.isdisjoint(FORBIDDEN_ENVIRONMENT)
    assert FORBIDDEN_ENVIRONMENT == ("BETTER_AUTH_SECRET",)


def test_a_signing_key_lying_about_is_no_obstacle() -> None:
    """What is forbidden is to need it: its mere presence does not stop a worker."""
    environment = {**GENERAL, BACKEND_VARIABLE: "local", "BETTER_AUTH_SECRET": "key"}

    assert isinstance(check_environment(environment, POLICIES), EnvironmentReady)


def test_a_policy_that_needs_a_signing_key_is_refused() -> None:
    """A deployment may add policies, but none that would give a worker the signing key."""
    greedy = PlacementPolicy(
        policy_id="greedy",
        backend="local",
        cleanup_providers=("local",),
        required_credential_env=("BETTER_AUTH_SECRET",),
    )
    environment = {**GENERAL, BACKEND_VARIABLE: "local", "BETTER_AUTH_SECRET": "key"}

    decision = check_environment(environment, (*POLICIES, greedy))

    assert isinstance(decision, SigningKeyRequired)
    assert decision.forbidden == ("BETTER_AUTH_SECRET",)
    assert "BETTER_AUTH_SECRET" in decision.message


def test_a_backend_without_policies_is_refused() -> None:
    """A worker that could run nothing says so at start and names what it could be."""
    decision = check_environment({**GENERAL, BACKEND_VARIABLE: "dayton"}, POLICIES)

    assert isinstance(decision, BackendUnknown)
    assert decision.backend == "dayton"
    assert "daytona, daytona_modal_canary, local, modal" in decision.message


def test_credentials_and_providers_are_told_once() -> None:
    """Two policies of one backend that share a provider ask for it once, in order."""
    again = PlacementPolicy(
        policy_id="again",
        backend="modal",
        cleanup_providers=("modal", "daytona"),
        required_credential_env=("MODAL_TOKEN_SECRET", "DAYTONA_API_KEY"),
    )

    assert provider_credentials("modal", (*POLICIES, again)) == (
        "MODAL_TOKEN_ID",
        "MODAL_TOKEN_SECRET",
        "DAYTONA_API_KEY",
    )
    assert sandbox_providers("modal", (*POLICIES, again)) == ("modal", "daytona")


_values = st.sampled_from(("", " ", "value"))


@given(
    environment=st.dictionaries(
        st.sampled_from(
            (*REQUIRED_ENVIRONMENT, "DAYTONA_API_KEY", "MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET")
        ),
        _values,
    ),
    backend=st.sampled_from((*BACKENDS, "other")),
)
def test_ready_means_that_nothing_is_missing(environment: dict[str, str], backend: str) -> None:
    """Whatever is set, a worker boots exactly when every required value says something."""
    decision = check_environment({**environment, BACKEND_VARIABLE: backend}, POLICIES)

    required = (*provider_credentials(backend, POLICIES), *REQUIRED_ENVIRONMENT)
    missing = tuple(name for name in required if not environment.get(name, "").strip())
    if backend == "other":
        assert isinstance(decision, BackendUnknown)
    elif missing:
        assert isinstance(decision, EnvironmentIncomplete)
        assert decision.missing == missing
    else:
        assert isinstance(decision, EnvironmentReady)
