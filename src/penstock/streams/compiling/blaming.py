"""Which step of a topology Spark does not understand.

Types are known to Spark alone, so that a condition that is a number, or a sum of text, is found out
where a step is compiled. Spark's error shows its own plan; the user wrote a step.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import AnalysisException

from penstock.streams.errors import TopologyError
from penstock.streams.topology import Filter, Node

CONDITION = "; a condition is true or false: compare it, as in o.amount > 0"


@contextmanager
def told_by(node: Node) -> Iterator[None]:
    """Errors of Spark's analysis become ones that name the step."""
    try:
        yield
    except AnalysisException as problem:
        reason = str(problem).strip().splitlines()[0]
        way_out = CONDITION if isinstance(node, Filter) else ""
        text = node.text() or type(node).__name__
        raise TopologyError(f"{node.name} ({text}): {reason}{way_out}") from problem
