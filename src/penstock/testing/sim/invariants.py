"""The failure of a simulation: a broken rule of the quorum or of the cluster."""


class InvariantBroken(AssertionError):
    """The simulated nodes have broken a rule."""


def require(condition: bool, rule: str) -> None:
    """Raise InvariantBroken with the rule unless the condition holds."""
    if not condition:
        raise InvariantBroken(rule)
