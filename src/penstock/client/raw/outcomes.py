"""The ways in which reading or writing a partition can fail: one exception each.

Each names the partition and the next step. The reader or the writer has retried within its limits,
so these exceptions are final.
"""

from penstock.errors import KafkaError
from penstock.model import TopicPartition, id_to_text


class PartitionFailure(Exception):
    """Work on one partition has ended without success."""

    def __init__(self, partition: TopicPartition, text: str) -> None:
        super().__init__(f"{partition}: {text}")
        self.partition = partition


# -- of topics


class TopicMissing(PartitionFailure):
    """The topic is not there, or not any more."""

    def __init__(self, partition: TopicPartition) -> None:
        super().__init__(
            partition,
            f"topic {partition.topic} does not exist (any more). If it was deleted on purpose, "
            "take it out of what is read or written; else create it",
        )


class TopicRecreated(PartitionFailure):
    """The topic was deleted and another one has its name."""

    def __init__(self, partition: TopicPartition, known_id: bytes, found_id: bytes) -> None:
        super().__init__(
            partition,
            f"topic {partition.topic} was deleted and created again: its id was "
            f"{id_to_text(known_id)}, now it is {id_to_text(found_id)}. Offsets of the old topic "
            "mean nothing in the new one: start with a new checkpoint or new offsets",
        )
        self.known_id = known_id
        self.found_id = found_id


class PartitionMissing(PartitionFailure):
    """The topic is there and has no such partition."""

    def __init__(self, partition: TopicPartition, count: int) -> None:
        super().__init__(
            partition,
            f"topic {partition.topic} has {count} partitions, the last one is {count - 1}. "
            "Partitions never go away by themselves: was the topic created again, with fewer?",
        )
        self.count = count


class NotAuthorized(PartitionFailure):
    """The server has authenticated the client and denies the operation."""

    def __init__(self, partition: TopicPartition, operation: str, error: KafkaError) -> None:
        super().__init__(
            partition,
            f"not authorized to {operation} ({error.message}). Give this principal the ACL "
            f"{operation.upper()} on topic {partition.topic}",
        )
        self.error = error


# -- of reading


class ReadFailure(PartitionFailure):
    """A range was not read to its end; `position` is the first offset that was not."""

    def __init__(self, partition: TopicPartition, position: int, end: int, text: str) -> None:
        super().__init__(partition, f"offsets {position} to {end} were not read: {text}")
        self.position = position
        self.end = end


class RecordsExpired(ReadFailure):
    """Retention or DeleteRecords removed the records before they were read."""

    def __init__(self, partition: TopicPartition, position: int, end: int, log_start: int) -> None:
        super().__init__(
            partition,
            position,
            end,
            f"the log now begins at {log_start}; what was before it has been removed by retention "
            "or by DeleteRecords. Read from there on, and raise retention.ms or retention.bytes, "
            "or read sooner",
        )
        self.log_start = log_start


class RecordsLost(ReadFailure):
    """The log ends before the end that was promised."""

    def __init__(self, partition: TopicPartition, position: int, end: int, log_end: int) -> None:
        super().__init__(
            partition,
            position,
            end,
            f"the log ends at {log_end}. It had reached further: records were lost, by an unclean "
            "leader election or because the disk of a single replica was",
        )
        self.log_end = log_end


class ReadTimedOut(ReadFailure):
    """Nothing moved for too long."""

    def __init__(
        self, partition: TopicPartition, position: int, end: int, waited_ms: int, reason: str
    ) -> None:
        super().__init__(
            partition, position, end, f"nothing moved for {waited_ms} ms; last: {reason}"
        )
        self.waited_ms = waited_ms
        self.reason = reason


class ReadGaveUp(ReadFailure):
    """Every attempt failed."""

    def __init__(
        self, partition: TopicPartition, position: int, end: int, attempts: int, reason: str
    ) -> None:
        super().__init__(partition, position, end, f"{attempts} attempts failed; last: {reason}")
        self.attempts = attempts
        self.reason = reason


# -- of writing


class WriteFailure(PartitionFailure):
    """Batches of a partition were not acknowledged; `records` of them, the failed one first."""

    def __init__(self, partition: TopicPartition, records: int, text: str) -> None:
        super().__init__(partition, f"{records} records were not acknowledged: {text}")
        self.records = records


class WriteRefused(WriteFailure):
    """The server does not take a batch, and will not."""

    def __init__(self, partition: TopicPartition, records: int, error: KafkaError) -> None:
        super().__init__(partition, records, f"{error.kafka_name()}, {error.message}")
        self.error = error


class BatchTooLarge(WriteRefused):
    """A batch is larger than its topic takes."""

    def __init__(
        self, partition: TopicPartition, records: int, error: KafkaError, size: int
    ) -> None:
        super().__init__(partition, records, error)
        self.args = (
            f"{self.args[0]}. The batch has {size} bytes: write smaller batches (batch.size), or "
            f"raise max.message.bytes of topic {partition.topic}, or message.max.bytes and "
            "socket.request.max.bytes of the brokers",
        )
        self.size = size


class ProducerReplaced(WriteRefused):
    """Another producer has taken this one's id: further writes would be a zombie's."""


class SequenceBroken(WriteRefused):
    """A partition does not continue where its acknowledged batches ended."""


class DeliveryTimedOut(WriteFailure):
    """No acknowledgement within delivery.timeout.ms; whether the batch is stored is not known."""

    def __init__(
        self, partition: TopicPartition, records: int, waited_ms: int, reason: str
    ) -> None:
        super().__init__(
            partition,
            records,
            f"not within {waited_ms} ms (delivery.timeout.ms); last: {reason}. They may be stored "
            "or not",
        )
        self.waited_ms = waited_ms
        self.reason = reason
