"""Put a sandbox provider of your own through simulated worlds, before its users do.

    python examples/simulate_my_provider.py

The provider here has a mistake that every test on a good day passes: asked to create a sandbox
again, because the answer to the first request was lost, it makes another one. The simulator loses
answers, so it finds the sandbox that nobody deletes. The last lines show the mended provider.
"""

from deepline.adapters.memory import MemorySandboxProvider
from deepline.core.model.sandbox import Operation, Resources, SandboxRef
from deepline.ports.sandbox_provider import SandboxProvider
from deepline.simulation import Seat, WorldOptions, shrink, simulate

SEEDS = range(1, 101)


class ForgetfulProvider(MemorySandboxProvider):
    """Makes a sandbox at each request, whether or not one of that name is there."""

    async def create(self, operation: Operation, resources: Resources) -> SandboxRef:
        """Create, without looking first."""
        await self._enter("create")
        sandbox = self._add(operation)
        await self._leave("create")
        return sandbox.ref


def forgetful(seat: Seat) -> SandboxProvider:
    """What each simulated process is given: a view of the one provider, over its own link."""
    return ForgetfulProvider(
        name="local",
        life_of=seat.life_of,
        clock=seat.clock,
        faults=seat.faults,
        sandboxes=seat.shared,
    )


def main() -> None:
    """Find a world in which a promise is broken, and say what it takes."""
    options = WorldOptions(provider=forgetful)
    for seed in SEEDS:
        history = simulate(options, seed)
        if not history.held:
            print(f"seed {seed} breaks {history.violations[0]}")
            break
    else:
        print(f"{len(SEEDS)} worlds, and nothing was found")
        return
    shrunk = shrink(options, seed)
    print(f"it takes {len(shrunk.history.struck)} faults:")
    for fault in shrunk.history.struck:
        print(f"  {fault}")
    print("what the provider went through:")
    for event in shrunk.history.of("sandbox created", "delete asked", "delete answered"):
        print(f"  {event.line}")

    print("with a provider that looks first:")
    broken = [seed for seed in SEEDS if not simulate(WorldOptions(), seed).held]
    print(f"{len(SEEDS)} worlds, {len(broken)} broken")


if __name__ == "__main__":
    main()
