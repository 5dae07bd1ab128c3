"""Records of `__transaction_state`."""

from penstock.wire.primitives import Int8, Int16, Int32, Int64
from penstock.wire.schema import field, record, struct


@record(key=0, versions="0")
class TransactionLogKey:
    transactional_id: str = ""


@struct
class PartitionsSchema:
    topic: str = ""
    partition_ids: list[Int32] = field(default_factory=list)


@record(key=0, versions="0-1", flexible=1)
class TransactionLogValue:
    producer_id: Int64 = 0
    previous_producer_id: Int64 = field("1+", tag=0, default=-1)
    next_producer_id: Int64 = field("1+", tag=1, default=-1)
    producer_epoch: Int16 = 0
    next_producer_epoch: Int16 = field("1+", tag=3, default=-1)
    transaction_timeout_ms: Int32 = 0
    transaction_status: Int8 = 0
    transaction_partitions: list[PartitionsSchema] | None = field(default_factory=list)
    transaction_last_update_timestamp_ms: Int64 = 0
    transaction_start_timestamp_ms: Int64 = 0
    client_transaction_version: Int16 = field("1+", tag=2, default=0)
