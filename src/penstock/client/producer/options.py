"""Options of a producer beside its settings and serializers, the same for both faces."""

from collections.abc import Sequence
from typing import TypedDict

from penstock.client.interceptors import ProducerInterceptor
from penstock.client.partitioners import PartitionerLike


class ProducerOptions(TypedDict, total=False):
    """Optional keyword arguments of Producer, for type checkers."""

    bootstrap: str | None
    partitioner: PartitionerLike | None
    interceptors: Sequence[ProducerInterceptor]
    namespace: str | None


KNOWN = frozenset({*ProducerOptions.__annotations__, "key", "value"})
