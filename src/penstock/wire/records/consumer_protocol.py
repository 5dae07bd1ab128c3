"""The payloads that consumers of a classic group exchange inside JoinGroup and SyncGroup.

The broker reads subscriptions only for their topics.  A newer version than ours begins like the
newest known one, and is read as that.
"""

from typing import TypeVar

from penstock.wire.codec import read, read_int16
from penstock.wire.primitives import Buffer, Int32, Malformed
from penstock.wire.schema import field, message, schema_of, struct

T = TypeVar("T")


@struct
class TopicPartition:
    topic: str = ""
    partitions: list[Int32] = field(default_factory=list)


@message(versions="0-3")
class ConsumerProtocolSubscription:
    topics: list[str] = field(default_factory=list)
    user_data: bytes | None = None
    owned_partitions: list[TopicPartition] = field("1+", default_factory=list)
    generation_id: Int32 = field("2+", default=-1)
    rack_id: str | None = field("3+", default=None)


@message(versions="0-3")
class ConsumerProtocolAssignment:
    assigned_partitions: list[TopicPartition] = field(default_factory=list)
    user_data: bytes | None = None


def read_consumer_protocol(cls: type[T], data: Buffer) -> T:
    """Return a subscription or an assignment behind its version."""
    version = read_int16(data)
    if version < 0:
        raise Malformed(f"{cls.__name__} has no version {version}")
    return read(cls, min(version, schema_of(cls).versions.last), data, 2)
