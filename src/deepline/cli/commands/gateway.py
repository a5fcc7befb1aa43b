"""`deepline gateway`."""

from functools import partial

from deepline.cli.host import host
from deepline.cli.roles.gateway import serve_gateway
from deepline.cli.settings.gateway import read_gateway
from deepline.cli.settings.reading import environment


def gateway() -> int:
    """Serve people, runners and workers over HTTP until stopped.

    Needs WORKFLOW_RUNTIME_POSTGRES, DEEPLINE_INTERNAL_TOKEN and DEEPLINE_SIGNING_KEY (or
    DEEPLINE_SIGNING_KEY_FILE). Any number of gateways may serve one deployment.
    """
    return host(partial(serve_gateway, read_gateway(environment())))
