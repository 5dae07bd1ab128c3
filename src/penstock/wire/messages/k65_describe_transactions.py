"""DescribeTransactions, v0.  State of transactional ids, each asked at its coordinator."""

from penstock.wire.primitives import Int16, Int32, Int64
from penstock.wire.schema import field, message, struct


@message(key=65, versions="0", flexible=0)
class DescribeTransactionsRequest:
    transactional_ids: list[str] = field(default_factory=list)


@struct
class TopicData:
    topic: str = ""
    partitions: list[Int32] = field(default_factory=list)


@struct
class TransactionState:
    error_code: Int16 = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: list[TopicData] = field(default_factory=list)


@message(key=65, versions="0", flexible=0, response=True)
class DescribeTransactionsResponse:
    throttle_time_ms: Int32 = 0
    transaction_states: list[TransactionState] = field(default_factory=list)
