"""How a cluster for tests can fail, and what it says when it cannot do what it is asked for."""


class NodeFailed(Exception):
    """The node could not start, or gave up by itself; the text says why."""


class NotPossible(Exception):
    """This kind of cluster cannot do that; the text says which one can."""
