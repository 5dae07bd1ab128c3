"""AddPartitionsToTxn, v0-v5.

v0-v3: from clients, one transaction.  v3: flexible.  v4: from brokers, in batches, with
verify_only.  v5: TRANSACTION_ABORTABLE.
"""

from penstock.wire.primitives import Int16, Int32, Int64
from penstock.wire.schema import field, message, struct


@struct
class AddPartitionsToTxnTopic:
    name: str = ""
    partitions: list[Int32] = field(default_factory=list)


@struct
class AddPartitionsToTxnTransaction:
    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    verify_only: bool = False
    topics: list[AddPartitionsToTxnTopic] = field(default_factory=list)


@message(key=24, versions="0-5", flexible=3)
class AddPartitionsToTxnRequest:
    transactions: list[AddPartitionsToTxnTransaction] = field("4+", default_factory=list)
    v3_and_below_transactional_id: str = field("0-3", default="")
    v3_and_below_producer_id: Int64 = field("0-3", default=0)
    v3_and_below_producer_epoch: Int16 = field("0-3", default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field("0-3", default_factory=list)


@struct
class AddPartitionsToTxnPartitionResult:
    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


@struct
class AddPartitionsToTxnTopicResult:
    name: str = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(default_factory=list)


@struct
class AddPartitionsToTxnResult:
    transactional_id: str = ""
    topic_results: list[AddPartitionsToTxnTopicResult] = field(default_factory=list)


@message(key=24, versions="0-5", flexible=3, response=True)
class AddPartitionsToTxnResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = field("4+", default=0)
    results_by_transaction: list[AddPartitionsToTxnResult] = field("4+", default_factory=list)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(
        "0-3", default_factory=list
    )
