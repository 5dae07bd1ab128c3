"""GetTelemetrySubscriptions, v0.  The metrics of a client, and their interval (KIP-714)."""

from penstock.wire.primitives import ZERO_UUID, Int8, Int16, Int32, Uuid
from penstock.wire.schema import field, message


@message(key=71, versions="0", flexible=0)
class GetTelemetrySubscriptionsRequest:
    client_instance_id: Uuid = ZERO_UUID


@message(key=71, versions="0", flexible=0, response=True)
class GetTelemetrySubscriptionsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    accepted_compression_types: list[Int8] = field(default_factory=list)
    push_interval_ms: Int32 = 0
    telemetry_max_bytes: Int32 = 0
    delta_temporality: bool = False
    requested_metrics: list[str] = field(default_factory=list)
