"""Why something was decided: the rule that fired, and the evidence it saw.

The runtime stores one with each terminal, deferral, park and refusal; `deepline explain` turns
it into a sentence. Evidence is small JSON, instants as ISO text, lengths in milliseconds with
`_ms` names, and never holds a secret.
"""

import attrs

from deepline.core.model.json_value import Json, JsonObject


@attrs.frozen
class Why:
    """`rule` is a stable name such as `arbitration.pushed_terminal`; `evidence` is what it saw."""

    rule: str
    evidence: JsonObject = attrs.field(factory=dict[str, Json])
