"""What the outside must do for us: one Protocol a file, with its value types and few typed errors.

Every method is one atomic operation of the domain. It may raise `Unavailable`,
`CapacityExceeded` or `OutcomeUnknown` (see `errors`); refusals that a rule must see are values.
Every method may be cancelled by its caller; a cancelled write either happened whole or not at
all, and the caller that must know reads again.
"""
