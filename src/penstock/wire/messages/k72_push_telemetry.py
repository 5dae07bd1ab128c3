"""PushTelemetry, v0.  A client's measurements, in OTLP (KIP-714)."""

from penstock.wire.primitives import ZERO_UUID, Int8, Int16, Int32, Uuid
from penstock.wire.schema import message


@message(key=72, versions="0", flexible=0)
class PushTelemetryRequest:
    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    terminating: bool = False
    compression_type: Int8 = 0
    metrics: bytes = b""


@message(key=72, versions="0", flexible=0, response=True)
class PushTelemetryResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
