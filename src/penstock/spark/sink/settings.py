"""The options of a write, as the sink needs them. spark/options fills them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from penstock.bulk.encode import BATCH_BYTES_MAX
from penstock.client.admin.blocking import Admin
from penstock.client.transport.security import Security
from penstock.spark.sink.decision_end import OnLost
from penstock.spark.sink.decisions import BatchName

# Below 15 minutes, the default maximum of a cluster (transaction.max.timeout.ms).
TRANSACTION_TIMEOUT_MS = 10 * 60_000
DELIVERY_TIMEOUT_MS = 120_000
REQUEST_TIMEOUT_MS = 30_000


class DeliveryGuarantee(StrEnum):
    """The option `delivery.guarantee`."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of a write. `topic` None: each row has one. `batch` is the batch of
    `write_batch`."""

    properties: Mapping[str, str]
    topic: str | None = None
    sink_id: str | None = None
    checkpoint_location: str | None = None
    delivery: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE
    tasks_max: int | None = None
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    new_checkpoint_allowed: bool = False
    on_lost: OnLost = OnLost.STOP
    batch: BatchName | None = None
    acks: int = -1
    compression: str = "none"
    compression_level: int | None = None
    batch_bytes: int = BATCH_BYTES_MAX
    delivery_timeout_ms: int = DELIVERY_TIMEOUT_MS
    request_timeout_ms: int = REQUEST_TIMEOUT_MS
    client_id: str = "penstock-spark-sink"

    @property
    def bootstrap(self) -> str:
        return self.properties["bootstrap.servers"]

    @property
    def transactional(self) -> bool:
        return self.delivery is DeliveryGuarantee.EXACTLY_ONCE

    def connect(self) -> Admin:
        """Connect to the cluster; the caller closes the client."""
        return Admin(
            self.bootstrap,
            client_id=self.client_id,
            timeout_s=self.request_timeout_ms / 1000,
            security=Security.from_properties(self.properties),
        )
