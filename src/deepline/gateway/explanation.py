"""Explanations as the public API shows them: the sentence, what is next, and the evidence."""

from deepline.core.explain import explain
from deepline.core.model.evidence import RunEvidence
from deepline.core.model.json_value import Json


def explanation_view(evidence: RunEvidence) -> dict[str, Json]:
    """Explain one run; `evidence` is its timeline, oldest first."""
    explanation = explain(evidence)
    return {
        "runId": evidence.run.run_id,
        "status": evidence.run.status.value,
        "situation": explanation.situation,
        "sentence": explanation.sentence,
        "next": explanation.next,
        "remaining": list(explanation.remaining),
        "evidence": [
            {"at": entry.at, "attempt": entry.attempt, "what": entry.what, "rule": entry.rule}
            for entry in explanation.timeline
        ],
    }
