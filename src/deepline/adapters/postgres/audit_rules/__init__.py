"""What must be true of the database of record, one query a rule (I01–I31, I50, I51).

Each query answers a row for every place where its rule is broken: the run, and what is wrong with
it in words. `{schema}` stands for our schema, `{terminal_kinds}` for the kinds of terminal facts,
`{proofs}` for what a look at a sandbox may say that proves it gone. Rules of a lane speak of the
lane's own tables in the engine, `{tasks}` and `{engine_runs}`, and of its name, `{lane}`.

Most rules hold at every moment, since what they speak of changes in one commit. Others speak of
duties that are done a while after a run has ended; they hold once nothing is in hand any more.
"""

from collections.abc import Mapping, Sequence

from deepline.adapters.postgres.audit_rules.attempts import ATTEMPTS
from deepline.adapters.postgres.audit_rules.engine import ENGINE
from deepline.adapters.postgres.audit_rules.facts import FACTS
from deepline.adapters.postgres.audit_rules.held import ROWS, SANDBOXES
from deepline.adapters.postgres.audit_rules.rule import Rule
from deepline.adapters.postgres.audit_rules.runs import RUNS
from deepline.adapters.postgres.audit_rules.verdicts import VERDICTS

RULES: Sequence[Rule] = (*RUNS, *ATTEMPTS, *VERDICTS, *FACTS, *ROWS, *SANDBOXES, *ENGINE)

UNSEEN: Mapping[str, str] = {
    "I17": "a deferred wake writes nothing that could be compared later",
    "I18": "how long a wake was put off for is not kept once it woke",
}
"""Invariants up to I31 that a finished database cannot show, and why."""

__all__ = ["RULES", "UNSEEN", "Rule"]
