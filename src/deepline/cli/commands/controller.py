"""`deepline controller`."""

from functools import partial

from deepline.cli.host import host
from deepline.cli.provider_choice import ProviderName, chosen
from deepline.cli.roles.controller import serve_controller
from deepline.cli.settings.controller import read_controller
from deepline.cli.settings.parts import read_home
from deepline.cli.settings.reading import Reader, environment


def controller(*, provider: ProviderName | None = None) -> int:
    """Deliver what is due across all lanes and end runs that no worker ends, until stopped.

    Needs WORKFLOW_RUNTIME_POSTGRES and DEEPLINE_INTERNAL_TOKEN. One controller at a time looks
    after silent runners, as DEEPLINE_LIVENESS_SWEEP says. Run at least one; what each works on is
    leased, so more than one do no harm.

    Parameters
    ----------
    provider
        Where plays run. [default: DEEPLINE_PLAY_RUNNER_BACKEND]
    """
    home = read_home(Reader(environment()))
    return host(partial(serve_controller, read_controller(chosen(environment(), provider, home))))
