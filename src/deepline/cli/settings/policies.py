"""A deployment's own placement policies, read from a file (Q05)."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import cattrs

from deepline.cli.settings.reading import Reader
from deepline.core import placement
from deepline.core.model.placement import PlacementPolicy
from deepline.core.placement_table import violations, with_own

VARIABLE = "DEEPLINE_PLACEMENT_POLICIES_FILE"
_BYTES_MAX = 1 << 20


@attrs.frozen(kw_only=True)
class _Document:
    """One policy as the file has it."""

    id: str
    backend: str
    providers: list[str]
    credentials: list[str] = attrs.field(factory=list[str])
    canaryProvider: str | None = None  # noqa: N815 - as the file spells it
    canaryBasisPoints: int = 0  # noqa: N815
    fallbackProviders: list[str] = attrs.field(factory=list[str])  # noqa: N815


def read_policies(reader: Reader) -> Sequence[PlacementPolicy]:
    """Our policies with those of the file in their places; what is wrong is noted."""
    path = reader.text(VARIABLE)
    if path is None:
        return placement.POLICIES
    own = _own(reader, Path(path))
    for policy in own:
        for sentence in violations(policy):
            reader.wrong(sentence)
    return with_own(placement.POLICIES, own)


def _own(reader: Reader, path: Path) -> Sequence[PlacementPolicy]:
    converter = cattrs.Converter(forbid_extra_keys=True)
    try:
        with path.open("rb") as file:
            text = file.read(_BYTES_MAX)
        documents = converter.structure(_list(json.loads(text)), list[_Document])
    except OSError:
        reader.invalid(VARIABLE, "must name a file that can be read")
    except (ValueError, TypeError, cattrs.BaseValidationError):
        reader.invalid(VARIABLE, "must hold a JSON array of policies as the guide shows them")
    else:
        return [_policy(document) for document in documents]
    return ()


def _list(read: object) -> Sequence[Mapping[str, object]]:
    """A list of objects, whose fields have the types that they are said to have."""
    if not isinstance(read, list):
        raise TypeError("not a list")
    for one in read:
        if not isinstance(one, dict) or not all(_fits(name, value) for name, value in one.items()):
            raise TypeError("not a policy")
    return read


def _fits(name: str, value: object) -> bool:
    if name == "canaryBasisPoints":
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(value, list):
        return all(isinstance(one, str) for one in value)
    return value is None or isinstance(value, str)


def _policy(document: _Document) -> PlacementPolicy:
    return PlacementPolicy(
        policy_id=document.id,
        backend=document.backend,
        cleanup_providers=tuple(document.providers),
        required_credential_env=tuple(document.credentials),
        canary_provider=document.canaryProvider,
        canary_basis_points=document.canaryBasisPoints,
        fallback_providers=tuple(document.fallbackProviders),
    )
