"""What a gateway must know before it starts. It alone holds the keys (I45)."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from deepline.adapters.daytona import DaytonaSettings
from deepline.adapters.local import Isolation
from deepline.adapters.modal import ModalAccount
from deepline.cli.settings.daytona import read_daytona
from deepline.cli.settings.parts import (
    ProcessSettings,
    StoreSettings,
    masked,
    read_limits,
    read_process,
    read_store,
)
from deepline.cli.settings.reading import Reader
from deepline.core.cancel_cleanup import DIRECT_PROVIDERS
from deepline.core.environment import configured_backend
from deepline.core.limits import Limits
from deepline.gateway import InvalidSecretsKey, read_secrets_keys

PORT = 8400
TOKEN_MIN = 16
_PEM_END = "-----END PRIVATE KEY-----"
_NO_DAYTONA = DaytonaSettings(api_key="")
_NO_MODAL = ModalAccount(token_id="", token_secret="")
_EVERYWHERE = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - names it, does not bind it


@attrs.frozen(kw_only=True)
class GatewayRole:
    """One gateway process. `public_url` `None` is the address it listens on.

    Without `secrets_keys` it keeps no secrets.
    """

    process: ProcessSettings
    store: StoreSettings
    limits: Limits
    host: str = "127.0.0.1"
    port: int = PORT
    public_url: str | None = None
    internal_token: str = attrs.field(repr=masked)
    signing_keys: Sequence[str] = attrs.field(repr=masked)
    secrets_keys: Sequence[bytes] = attrs.field(default=(), repr=masked)
    backend: str
    placement_policy_id: str | None = None
    release_id: str | None = None
    queue_suffix: str | None = None
    allow_test_faults: bool = False
    providers: tuple[str, ...] = ()
    """Whose sandboxes a cancel deletes at once; by default none, and workers delete them all."""
    isolation: Isolation = Isolation.PREFER
    daytona: DaytonaSettings = _NO_DAYTONA
    modal: ModalAccount = _NO_MODAL

    @property
    def sandboxes(self) -> Path:
        """The directory of this machine's local sandboxes."""
        return self.process.home / "sandboxes"


def read_gateway(values: Mapping[str, str]) -> GatewayRole:
    """Read everything a gateway needs. Raises `SettingsRefused`, naming all that is wrong."""
    reader = Reader(values)
    host = reader.text("DEEPLINE_GATEWAY_HOST") or "127.0.0.1"
    public_url = reader.url("DEEPLINE_PUBLIC_URL", reader.text("DEEPLINE_PUBLIC_URL"))
    if host in _EVERYWHERE and public_url is None:
        reader.wrong(
            "DEEPLINE_PUBLIC_URL must say how workers and runners reach a gateway that listens "
            "on every address"
        )
    providers = _providers(reader)
    role = GatewayRole(
        process=read_process(reader),
        store=read_store(reader),
        limits=read_limits(reader),
        host=host,
        port=reader.whole("DEEPLINE_GATEWAY_PORT", PORT, least=0, most=65_535),
        public_url=public_url,
        internal_token=_internal_token(reader),
        signing_keys=_signing_keys(reader),
        secrets_keys=_secrets_keys(reader),
        backend=configured_backend(values),
        placement_policy_id=reader.text("DEEPLINE_PLACEMENT_POLICY"),
        release_id=reader.text("DEEPLINE_RELEASE_ID"),
        queue_suffix=reader.text("DEEPLINE_QUEUE_SUFFIX"),
        allow_test_faults=reader.switch("DEEPLINE_ALLOW_TEST_FAULTS"),
        providers=providers,
        daytona=read_daytona(reader) if providers else _NO_DAYTONA,
    )
    reader.check()
    return role


def _providers(reader: Reader) -> tuple[str, ...]:
    """The providers whose production sandboxes this gateway deletes for a cancel (C10)."""
    name = "DEEPLINE_GATEWAY_PROVIDERS"
    names = [one.strip() for one in (reader.text(name) or "").split(",")]
    chosen = tuple(dict.fromkeys(one for one in names if one))
    others = [one for one in chosen if one not in DIRECT_PROVIDERS]
    if others:
        known = ", ".join(sorted(DIRECT_PROVIDERS))
        reader.invalid(
            name, f"may name {known} alone; workers delete the sandboxes of {', '.join(others)}"
        )
    if "daytona" in chosen:
        reader.required("DAYTONA_API_KEY")
    return chosen


def split_keys(text: str) -> tuple[str, ...]:
    """The keys of one text, newest first, so that they rotate without a refused token."""
    parts = text.replace("\\n", "\n").split(_PEM_END)[:-1]
    return tuple(f"{part.strip()}\n{_PEM_END}\n" for part in parts)


def _internal_token(reader: Reader) -> str:
    token = reader.required("DEEPLINE_INTERNAL_TOKEN")
    if token and len(token) < TOKEN_MIN:
        reader.invalid("DEEPLINE_INTERNAL_TOKEN", f"must have at least {TOKEN_MIN} characters")
    return token


def _signing_keys(reader: Reader) -> Sequence[str]:
    name, text = _text_or_file(reader, "DEEPLINE_SIGNING_KEY")
    if text is None:
        return ()
    if not text:
        reader.missing("DEEPLINE_SIGNING_KEY")
        return ()
    keys = split_keys(text)
    if not keys:
        reader.invalid(name, "must hold Ed25519 private keys in PEM form")
    return keys


def _secrets_keys(reader: Reader) -> Sequence[bytes]:
    name, text = _text_or_file(reader, "DEEPLINE_SECRETS_KEY")
    if text is None or (not text and name == "DEEPLINE_SECRETS_KEY"):
        return ()
    try:
        return read_secrets_keys(text)
    except InvalidSecretsKey as error:
        reader.invalid(name, str(error))
        return ()


def _text_or_file(reader: Reader, variable: str) -> tuple[str, str | None]:
    """The variable that counts and its text: empty when unset, `None` when it cannot be read."""
    name = f"{variable}_FILE"
    text, path = reader.text(variable), reader.text(name)
    if text:
        return variable, text
    if not path:
        return variable, ""
    try:
        return name, Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        reader.invalid(name, "must name a file of keys that this process may read")
        return name, None
