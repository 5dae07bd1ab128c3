"""Options of a producer beside its settings and serializers, the same for both faces."""

from collections.abc import Sequence
from typing import Any, TypedDict

from penstock.client.addresses import BootstrapLike
from penstock.client.interceptors import ProducerInterceptor
from penstock.client.partitioners import PartitionerLike
from penstock.client.serde.protocols import SerializerLike


class ProducerOptions(TypedDict, total=False):
    """Optional keyword arguments of Producer, for type checkers."""

    bootstrap: BootstrapLike | None
    partitioner: PartitionerLike | None
    interceptors: Sequence[ProducerInterceptor]
    namespace: str | None


class ProducerArguments(ProducerOptions, total=False):
    """All keyword arguments of Producer."""

    key: SerializerLike[Any] | None
    value: SerializerLike[Any] | None


KNOWN = frozenset({*ProducerOptions.__annotations__, "key", "value"})
