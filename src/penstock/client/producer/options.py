"""What may be said to a producer beside its settings and serializers; the same for both twins."""

from collections.abc import Sequence
from typing import TypedDict

from penstock.client.interceptors import ProducerInterceptor
from penstock.client.partitioners import PartitionerLike


class ProducerOptions(TypedDict, total=False):
    """All may be left out. For type checkers: a producer itself names them one by one."""

    bootstrap: str | None
    partitioner: PartitionerLike | None
    interceptors: Sequence[ProducerInterceptor]
    namespace: str | None


KNOWN = frozenset({*ProducerOptions.__annotations__, "key", "value"})
