"""Reads records for `penstock consume`, in batches, on librdkafka.

A reader has assigned partitions with offsets, or is a member of a group and commits printed
records. Without `follow` the reader ends at the end of every partition. If no record comes for a
while before the end, a callback asks the cluster for the reason.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import confluent_kafka as kafka

from penstock.cli.connection.rdkafka import error_text, silent_logger
from penstock.cli.consume.record_view import RawRecord
from penstock.cli.terminal.output import CommandFailed, WrongUsage, note
from penstock.client.namespace import Namespace
from penstock.client.records import Record
from penstock.model import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

BATCH_RECORDS_MAX = 1_000
POLL_S = 0.2
# Longer than the restart of a node; existing records come sooner.
QUIET_S_MAX = 10.0
UNUSED_GROUP = "penstock-cli"

# Raises the reason why no records come, if there is one.
AskCluster: TypeAlias = Callable[[], None]


class ErrorNotes:
    """Prints each kind of librdkafka's errors once, until records come again.

    A broken connection is not printed: librdkafka reconnects, and others may be left.
    """

    def __init__(self) -> None:
        self._told: set[int] = set()

    def __call__(self, error: "kafka.KafkaError") -> None:
        code = error.code()
        if code != kafka.KafkaError._TRANSPORT and code not in self._told:
            self._told.add(code)
            note(f"warning: {error_text(error)}")

    def clear(self) -> None:
        self._told.clear()


class RecordReader:
    """A consumer of librdkafka for the time of a `with`."""

    def __init__(self, settings: Mapping[str, Any], namespace: Namespace, *, follow: bool) -> None:
        self._troubles = ErrorNotes()
        self._consumer = _open({**settings, "error_cb": self._troubles})
        self._namespace = namespace
        self._follow = follow
        self._unread: dict[TopicPartition, bool] = {}  # partitions that are not read to their end
        self._member = False
        self._assigned = False

    @classmethod
    def of_partitions(
        cls,
        settings: Mapping[str, Any],
        namespace: Namespace,
        begins: Mapping[TopicPartition, int],
        *,
        follow: bool,
    ) -> "RecordReader":
        """Return a reader of partitions from given offsets; names have no namespace."""
        # librdkafka requires a group.id; without commits the group is never created.
        own = {"group.id": UNUSED_GROUP, "enable.auto.commit": False, "auto.offset.reset": "error"}
        reading = cls({**settings, **own}, namespace, follow=follow)
        there = {TopicPartition(namespace.add(t), p): at for (t, p), at in begins.items()}
        reading._unread = dict.fromkeys(there, True)
        reading._assigned = True
        reading._consumer.assign([kafka.TopicPartition(*each, at) for each, at in there.items()])
        return reading

    @classmethod
    def of_group(
        cls,
        settings: Mapping[str, Any],
        namespace: Namespace,
        topics: Sequence[str],
        *,
        follow: bool,
    ) -> "RecordReader":
        reading = cls(settings, namespace, follow=follow)
        reading._member = True
        reading._consumer.subscribe(
            [namespace.add(each) for each in topics],
            on_assign=reading._gained,
            on_revoke=reading._lost,
        )
        return reading

    def __enter__(self) -> "RecordReader":
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def batches(self, ask_cluster: AskCluster) -> Iterator[list[RawRecord]]:
        quiet_s = 0.0
        while self._follow or not self._assigned or self._unread:
            first = self._consumer.poll(POLL_S)
            if first is None:
                quiet_s += POLL_S
                if quiet_s >= QUIET_S_MAX and not self._follow:
                    ask_cluster()
                    quiet_s = 0.0
                continue
            quiet_s = 0.0
            self._troubles.clear()
            # Only fetched records: with a timeout this call would wait for a full batch.
            more = self._consumer.consume(BATCH_RECORDS_MAX, 0)
            records = [self._record(each) for each in (first, *more) if self._is_record(each)]
            if records:
                yield records

    def finish(self, records: Sequence[RawRecord]) -> None:
        """Mark printed records as committable."""
        if not self._member:
            return
        last = {each.place: each.offset for each in records}
        self._consumer.store_offsets(
            offsets=[
                kafka.TopicPartition(self._namespace.add(topic), partition, offset + 1)
                for (topic, partition), offset in last.items()
            ]
        )

    def _is_record(self, message: "Message") -> bool:
        error = message.error()
        if error is None:
            return True
        if error.code() == kafka.KafkaError._PARTITION_EOF:
            self._unread.pop(_place(message), None)
        elif error.fatal() or not error.retriable():
            raise CommandFailed(error_text(error))
        else:
            note(f"warning: {error_text(error)}")
        return False

    def _record(self, message: "Message") -> RawRecord:
        place, offset = _place(message), message.offset()
        assert offset is not None, "a record has an offset"
        topic = self._namespace.strip(place.topic) or place.topic
        return Record.of_message(
            message, topic, place.partition, offset, message.key(), message.value()
        )

    def _gained(self, _consumer: "Consumer", partitions: list["kafka.TopicPartition"]) -> None:
        self._assigned = True
        self._unread |= {TopicPartition(each.topic, each.partition): True for each in partitions}

    def _lost(self, _consumer: "Consumer", partitions: list["kafka.TopicPartition"]) -> None:
        for each in partitions:
            self._unread.pop(TopicPartition(each.topic, each.partition), None)


def _open(settings: Mapping[str, Any]) -> "Consumer":
    own = {"enable.auto.offset.store": False, "enable.partition.eof": True}
    try:
        return kafka.Consumer({**settings, **own}, logger=silent_logger())
    except kafka.KafkaException as problem:
        raise WrongUsage(error_text(problem.args[0])) from None


def _place(message: "Message") -> TopicPartition:
    topic, partition = message.topic(), message.partition()
    assert topic is not None, "an event of a partition names it"
    assert partition is not None, "an event of a partition names it"
    return TopicPartition(topic, partition)
