"""Who is calling: a person by API key, a runner by executor token, a worker by internal token."""

import hashlib
import hmac

import attrs
from starlette.requests import Request

from deepline.core.model.identity import OrgId
from deepline.gateway.context import Gateway
from deepline.gateway.executor_tokens import RunnerIdentity
from deepline.gateway.problems import Problem
from deepline.gateway.signing import InvalidToken

INTERNAL_TOKEN_HEADER = "x-deepline-internal-token"  # noqa: S105 - a header's name


@attrs.frozen(kw_only=True)
class Principal:
    """A person or program with an API key. `org_id` is where it acts, operator or not."""

    key_id: str
    label: str
    org_id: OrgId
    operator: bool

    @property
    def name(self) -> str:
        """How the caller is named to others, in reasons and records."""
        return f"{self.label} ({self.key_id})" if self.label else self.key_id

    @property
    def sees(self) -> OrgId | None:
        """The organisation whose runs are visible; `None` means all."""
        return None if self.operator else self.org_id


def hash_api_key(key: str) -> str:
    """The form in which a key is stored and looked up: hex SHA-256; keys are long and random."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


async def authenticate_person(gateway: Gateway, request: Request) -> Principal:
    """Find the caller's API key. Raises a 401 `Problem`."""
    key = _bearer(request, "Send an API key as `Authorization: Bearer KEY`.")
    found = await gateway.ports.api_keys.find(hash_api_key(key))
    if found is None or found.revoked_at is not None:
        raise _unauthenticated("The API key is unknown or revoked; make one with the CLI.")
    return Principal(
        key_id=found.key_id, label=found.label, org_id=found.org_id, operator=found.operator
    )


def authenticate_runner(gateway: Gateway, request: Request) -> RunnerIdentity:
    """Verify the caller's executor token. Raises a 401 `Problem`.

    That the attempt is live is not said by a token: routes ask the store.
    """
    token = _bearer(request, "Send the executor token as `Authorization: Bearer TOKEN`.")
    try:
        return gateway.issuer.verify(token)
    except InvalidToken as error:
        raise _unauthenticated(f"Executor token refused: {error}.") from error


def authenticate_worker(gateway: Gateway, request: Request) -> None:
    """Compare the internal token in constant time. Raises a 401 `Problem`."""
    given = request.headers.get(INTERNAL_TOKEN_HEADER, "")
    if not hmac.compare_digest(_digest(given), _digest(gateway.settings.internal_token)):
        raise _unauthenticated(
            f"Send the deployment's internal token in {INTERNAL_TOKEN_HEADER}; "
            "gateway and worker must share DEEPLINE_INTERNAL_TOKEN."
        )


def _bearer(request: Request, advice: str) -> str:
    scheme, _, credential = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not credential.strip():
        raise _unauthenticated(advice)
    return credential.strip()


def _digest(text: str) -> bytes:
    # Equal lengths, so that not even the length of the secret shows in the time taken.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _unauthenticated(detail: str) -> Problem:
    return Problem(401, "unauthenticated", detail)
