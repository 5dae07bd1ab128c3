"""ListTransactions, v0-v2.  v1: filter by duration.  v2: filter by pattern (KIP-1152)."""

from penstock.wire.primitives import Int16, Int32, Int64
from penstock.wire.schema import field, message, struct


@message(key=66, versions="0-2", flexible=0)
class ListTransactionsRequest:
    state_filters: list[str] = field(default_factory=list)
    producer_id_filters: list[Int64] = field(default_factory=list)
    duration_filter: Int64 = field("1+", default=-1)
    transactional_id_pattern: str | None = field("2+", default=None)


@struct
class TransactionState:
    transactional_id: str = ""
    producer_id: Int64 = 0
    transaction_state: str = ""


@message(key=66, versions="0-2", flexible=0, response=True)
class ListTransactionsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[str] = field(default_factory=list)
    transaction_states: list[TransactionState] = field(default_factory=list)
