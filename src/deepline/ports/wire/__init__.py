"""The JSON of the nouns, one codec each, shared by the store, the gateway and the workers.

`…_to_json` makes plain dicts and lists; `…_from_json` takes whatever the JSON parser gave and
raises `MalformedDocument`, never anything else. The shapes are those of docs/internals/wire.md.
"""

from deepline.ports.errors import MalformedDocument
from deepline.ports.wire.checkpoint import (
    checkpoint_from_json,
    checkpoint_to_json,
    heartbeat_identity_from_json,
    silence_watch_from_json,
    silence_watch_to_json,
)
from deepline.ports.wire.fact import fact_from_json, fact_to_json
from deepline.ports.wire.launch import check_launch, launch_from_json, launch_to_json
from deepline.ports.wire.result import result_from_json, result_to_json, terminal_from_json
from deepline.ports.wire.storable import Problem, check_storable, encode_json, parse_json
from deepline.ports.wire.suspension import suspension_from_json, suspension_to_json
from deepline.ports.wire.why import why_from_json, why_to_json

__all__ = [
    "MalformedDocument",
    "Problem",
    "check_launch",
    "check_storable",
    "checkpoint_from_json",
    "checkpoint_to_json",
    "encode_json",
    "fact_from_json",
    "fact_to_json",
    "heartbeat_identity_from_json",
    "launch_from_json",
    "launch_to_json",
    "parse_json",
    "result_from_json",
    "result_to_json",
    "silence_watch_from_json",
    "silence_watch_to_json",
    "suspension_from_json",
    "suspension_to_json",
    "terminal_from_json",
    "why_from_json",
    "why_to_json",
]
