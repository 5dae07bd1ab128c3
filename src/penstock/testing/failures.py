"""The errors of a cluster for tests."""

from collections.abc import Mapping


class NodeFailed(Exception):
    """The node could not start, or failed later; the text tells the cause."""


class NotPossible(Exception):
    """This kind of cluster cannot do that; the text names one that can."""


def late_start(settings: Mapping[str, str], seconds: float) -> str:
    """Return the text for a node that has not become ready in time."""
    several = "controller.quorum.voters" in settings
    hint = ": a majority of the controllers must run, at least for a while" if several else ""
    return f"the node did not start within {seconds:.0f} seconds{hint}"
