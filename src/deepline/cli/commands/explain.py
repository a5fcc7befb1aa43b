"""`deepline explain`."""

from deepline.cli.people.conduct import conduct_at_once
from deepline.cli.people.where import HERE, Where
from deepline.core.model.identity import RunId


def explain(run_id: str, /, *, where: Where = HERE) -> int:
    """Say why a run ended so, or why it is not moving and what would move it.

    Parameters
    ----------
    run_id
        As `deepline runs list` shows it.
    """
    look = where.look()
    return conduct_at_once(lambda: look.explain(RunId(run_id)))
