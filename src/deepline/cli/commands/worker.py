"""`deepline worker`."""

from functools import partial

from deepline.cli.host import host
from deepline.cli.provider_choice import ProviderName, chosen
from deepline.cli.roles.worker import serve_worker
from deepline.cli.settings.parts import read_home
from deepline.cli.settings.reading import Reader, environment
from deepline.cli.settings.worker import read_worker


def worker(*, provider: ProviderName | None = None) -> int:
    """Serve one lane of runs until stopped.

    Needs WORKFLOW_RUNTIME_POSTGRES, DEEPLINE_INTERNAL_TOKEN,
    DEEPLINE_RUNTIME_RECEIPT_GATEWAY_URL and the credentials of its sandbox provider
    (DEEPLINE_PLAY_RUNNER_BACKEND); docs/operations/settings.md has the rest. The first SIGTERM or
    Ctrl-C lets runs in hand drain, the second ends at once.

    Parameters
    ----------
    provider
        Where plays run. [default: DEEPLINE_PLAY_RUNNER_BACKEND]
    """
    home = read_home(Reader(environment()))
    return host(partial(serve_worker, read_worker(chosen(environment(), provider, home))))
