"""`deepline controller`."""

from functools import partial

from deepline.cli.host import host
from deepline.cli.roles.controller import serve_controller
from deepline.cli.settings.controller import read_controller
from deepline.cli.settings.reading import environment


def controller() -> int:
    """Deliver what is due across all lanes and end runs that no worker ends, until stopped.

    Needs WORKFLOW_RUNTIME_POSTGRES and DEEPLINE_INTERNAL_TOKEN. One controller at a time looks
    after silent runners, as DEEPLINE_LIVENESS_SWEEP says. Run at least one; what each works on is
    leased, so more than one do no harm.
    """
    return host(partial(serve_controller, read_controller(environment())))
