"""How the emulated provider behaves while nothing is wrong with it: late, forgetful, eventual."""

import attrs


@attrs.frozen(kw_only=True)
class Temper:
    """Seconds by which the provider is behind itself.

    `terminate_delay_s` passes between the answer to a termination and its effect.
    `negative_cache_s` is how long a name that was not found goes on not being found.
    `list_lag_s` is how long a sandbox takes to appear in listings.
    `page_size` is how many sandboxes a page of a listing holds.
    """

    terminate_delay_s: float = 0.2
    negative_cache_s: float = 0.0
    list_lag_s: float = 0.0
    page_size: int = 50
