"""How a worker makes sandboxes (C14, C45, C46)."""

from collections.abc import Sequence

import attrs

from deepline.core import placement
from deepline.core.model.placement import PlacementPolicy
from deepline.core.model.sandbox import Resources, RuntimeEnvironment


@attrs.frozen(kw_only=True)
class SandboxSettings:
    """How sandboxes are made.

    `default_provider` is the backend of a launch that names none: that of a policy, or a provider.
    `runner_pyz` is the runner's archive. Limits on sandboxes held at a time are `None` for none;
    `org_limit` is one organisation's at one provider. `policies` choose the provider, and with
    `production` a share of the runs goes to the one on trial.
    """

    default_provider: str
    runner_pyz: bytes = attrs.field(repr=False)
    resources: Resources = attrs.field(factory=Resources)
    provider_limit: int | None = None
    org_limit: int | None = None
    policies: Sequence[PlacementPolicy] = placement.POLICIES
    production: bool = False

    @property
    def environment(self) -> RuntimeEnvironment:
        """Whose credentials make the sandboxes (Q06)."""
        return RuntimeEnvironment.PRODUCTION if self.production else RuntimeEnvironment.PREVIEW
