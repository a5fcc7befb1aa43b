"""The HTTP application: tokens, runner API, ledger, public API."""

from deepline.gateway.app import create_app
from deepline.gateway.authentication import hash_api_key
from deepline.gateway.context import GatewayPorts, Probe
from deepline.gateway.hints import Hints, RunHints, Watch
from deepline.gateway.sealing import (
    InvalidSecretsKey,
    Sealer,
    generate_secrets_key,
    read_secrets_keys,
)
from deepline.gateway.secrets import EnvironmentSecrets, SecretResolver, SecretVault
from deepline.gateway.server import (
    BoundListeners,
    PortUnavailable,
    ServerLimits,
    open_gateway_listeners,
    serve_bound,
    serve_gateway,
)
from deepline.gateway.settings import BodyLimits, GatewaySettings
from deepline.gateway.signing import InvalidSigningKey, SigningKeys, generate_signing_key

__all__ = [
    "BodyLimits",
    "BoundListeners",
    "EnvironmentSecrets",
    "GatewayPorts",
    "GatewaySettings",
    "Hints",
    "InvalidSecretsKey",
    "InvalidSigningKey",
    "PortUnavailable",
    "Probe",
    "RunHints",
    "Sealer",
    "SecretResolver",
    "SecretVault",
    "ServerLimits",
    "SigningKeys",
    "Watch",
    "create_app",
    "generate_secrets_key",
    "generate_signing_key",
    "hash_api_key",
    "open_gateway_listeners",
    "read_secrets_keys",
    "serve_bound",
    "serve_gateway",
]
