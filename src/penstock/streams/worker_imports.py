"""Functions and processors on their way to Spark's workers.

A worker on this machine must be able to import the modules of this process: from a script's own
directory, or from a folder on pytest's path. Spark does not send these paths.
"""

import os
import pickle
import sys
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from pyspark import cloudpickle

T = TypeVar("T")


class Shipped(Generic[T]):
    """Holds an object of the user; unpickling it adds the paths of its modules."""

    def __init__(self, what: T) -> None:
        self.what = what

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        places = [each for each in sys.path if each and os.path.isdir(each)]
        dumps: Callable[[Any], bytes] = cloudpickle.dumps
        return _arrived, (places, dumps(self.what))


def _arrived(places: list[str], data: bytes) -> Shipped[Any]:
    sys.path.extend(each for each in places if each not in sys.path and os.path.isdir(each))
    return Shipped(pickle.loads(data))
