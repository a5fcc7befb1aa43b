"""What a look at a local sandbox says (C32, Q30). Never raises for what it finds."""

from deepline.adapters.local.layout import Root
from deepline.adapters.local.liveness import Life, State, read_state
from deepline.adapters.local.result_file import read_result
from deepline.core.model.sandbox import Inspection, Stage
from deepline.ports.errors import Refused

_STAGES = {
    Life.NOT_STARTED: Stage.NOT_STARTED,
    Life.STARTING: Stage.SANDBOX_STARTING,
    Life.RUNNING: Stage.COMMAND_RUNNING,
    Life.EXITED: Stage.COMMAND_EXITED,
    Life.LOST: Stage.SESSION_NOT_FOUND,
}


def inspect(root: Root, name: str) -> Inspection:
    """Look at the sandbox of that name; blocks on the disk.

    Its absence is believed only under a root that is readable and marked as ours: an unmounted
    disk is an empty directory.
    """
    try:
        if root.identity() is None:
            return Inspection(stage=Stage.SANDBOX_LOOKUP_FAILED, detail="the root is not there")
        home = root.home(name)
        if home.spec() is None:
            return _absent(root, name)
        state = read_state(home)
    except (OSError, Refused) as failure:
        reason = getattr(failure, "strerror", None) or type(failure).__name__
        return Inspection(stage=Stage.SANDBOX_LOOKUP_FAILED, detail=reason)
    return Inspection(
        stage=_STAGES[state.life],
        exit_code=None if state.exit is None else state.exit.code,
        result=read_result(home.work / "result.json"),
        detail=_detail(state),
    )


def _absent(root: Root, name: str) -> Inspection:
    other = root.owner_of(name)
    if other is not None:
        return Inspection(
            stage=Stage.WRONG_ROUTING_DOMAIN, detail=f"it belongs to the organisation {other}"
        )
    return Inspection(stage=Stage.SANDBOX_NOT_FOUND)


def _detail(state: State) -> str | None:
    said: list[str] = []
    if state.supervisor is not None:
        said.append(f"isolation {state.supervisor.isolation}")
    if state.exit is not None and state.exit.limit is not None:
        said.append(f"limit exceeded: {state.exit.limit}")
    if state.exit is not None and state.exit.spawn_error is not None:
        said.append(f"not started: {state.exit.spawn_error}")
    return "; ".join(said) or None
