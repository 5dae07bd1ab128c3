"""The calls of both consumers that wait for nothing."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, Generic

from penstock.client.consumer.engine.core import ConsumerCore
from penstock.client.failures import DeserializationError
from penstock.client.namespace import Namespace
from penstock.client.records import ReadKey, ReadValue, Record
from penstock.model import TopicPartition


class ConsumerFace(Generic[ReadKey, ReadValue]):
    """The base of both consumers."""

    def __init__(
        self, core: ConsumerCore[ReadKey, ReadValue], caller: Callable[[], object]
    ) -> None:
        """Keep the core. `caller` returns the task or thread that runs now."""
        self._core = core
        self._caller = caller
        self.namespace: Namespace = core.config.namespace

    def __del__(self, warn: Any = warnings.warn) -> None:
        core = getattr(self, "_core", None)
        if core is not None and core.is_unclosed:
            text = f"a consumer was never closed: {self!r}"
            warn(text, ResourceWarning, source=self, stacklevel=2)
            core.engine.abandon()

    def __repr__(self) -> str:
        return f"<Consumer {self._core.name} group={self._core.config.group}>"

    def finish(self, record: Record[Any, Any]) -> bool:
        """Finish a record before its body ends. Return False if that no longer counts: its
        partition was revoked or moved, or the record is finished already."""
        self._core.engine.check()
        return self._core.converter.finish(record)

    def skip(self, error: DeserializationError) -> bool:
        """Skip the record that could not be read. Return False if another record is next by now."""
        self._core.engine.check()
        return self._core.skip(error)

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """Return the partitions that this consumer reads now, with names inside its namespace."""
        self._core.engine.check()
        return tuple(
            self._core.config.without_namespace(place) for place in self._core.shared.places
        )

    def finished_offsets(self) -> dict[TopicPartition, int]:
        """Return the first unfinished offset of each partition with finished records."""
        return self._core.without_namespace(self._core.finished())

    def leave_to_transactions(
        self, taker: object, said: Mapping[TopicPartition, int] | None, of_records: bool, /
    ) -> dict[TopicPartition, int]:
        """Serve Producer.send_offsets: stop timed commits. Return the named offsets, or else those
        of finished records and of the caller's records in flight."""
        caller = self._caller()
        offsets = self._core.leave_to_transactions(caller, taker, said, of_records)
        return self._core.without_namespace(offsets)

    def transaction_ended(self, taker: object, offsets: Mapping[TopicPartition, int], /) -> None:
        """Serve Producer.send_offsets: finish all records below these offsets."""
        self._core.transaction_ended(taker, offsets)

    def group_metadata(self) -> object:
        """Return librdkafka's description of this member, for a transaction."""
        return self._core.group_metadata()
