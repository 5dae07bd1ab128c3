"""Functions and processors on their way to Spark's workers.

A worker on this machine must be able to import what this process can: a script's own directory, a
folder that pytest has put on the path. Spark sends none of it along.
"""

import os
import pickle
import sys
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from pyspark import cloudpickle

T = TypeVar("T")


class Shipped(Generic[T]):
    """Holds something of the user's; arrives with the places where it can be imported from."""

    def __init__(self, what: T) -> None:
        self.what = what

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        places = [each for each in sys.path if each and os.path.isdir(each)]
        dumps: Callable[[Any], bytes] = cloudpickle.dumps
        return _arrived, (places, dumps(self.what))


def _arrived(places: list[str], data: bytes) -> Shipped[Any]:
    sys.path.extend(each for each in places if each not in sys.path and os.path.isdir(each))
    return Shipped(pickle.loads(data))
