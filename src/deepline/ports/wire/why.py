"""Reasons as JSON, as they stand beside terminals and in the record of decisions."""

from deepline.core.model.json_value import Json
from deepline.core.model.why import Why
from deepline.ports.wire import fields


def why_to_json(why: Why) -> dict[str, Json]:
    """Encode the rule that fired with the evidence it saw."""
    return {"rule": why.rule, "evidence": why.evidence}


def why_from_json(value: object, path: str = "") -> Why:
    """Parse; raises `MalformedDocument`."""
    document = fields.as_object(value, path)
    evidence = fields.optional_object(document, "evidence", path)
    return Why(fields.text(document, "rule", path), {} if evidence is None else evidence)
