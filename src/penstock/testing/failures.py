"""The errors of a cluster for tests."""


class NodeFailed(Exception):
    """The node could not start, or failed later; the text tells the cause."""


class NotPossible(Exception):
    """This kind of cluster cannot do that; the text names one that can."""
