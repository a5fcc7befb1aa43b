"""Which sheets have the data plane's account of a run's rows (C23).

That account alone is shown: live progress may be missing altogether for a detached run, and the
sheets are where the rows are.
"""

from deepline.core.model.launch import Launch


def namespaces(launch: Launch) -> tuple[str, ...]:
    """The sheets whose counts are to be read: each once, in the launch's order, none nameless."""
    return tuple(dict.fromkeys(name for name in launch.table_namespaces if name))
