"""DescribeClientQuotas, v0-v1.  v1: flexible."""

from penstock.wire.primitives import Float64, Int8, Int16, Int32
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import EntityData


@struct
class ComponentData:
    entity_type: str = ""
    match_type: Int8 = 0
    match: str | None = ""


@message(key=48, versions="0-1", flexible=1)
class DescribeClientQuotasRequest:
    components: list[ComponentData] = field(default_factory=list)
    strict: bool = False


@struct
class ValueData:
    key: str = ""
    value: Float64 = 0.0


@struct
class EntryData:
    entity: list[EntityData] = field(default_factory=list)
    values: list[ValueData] = field(default_factory=list)


@message(key=48, versions="0-1", flexible=1, response=True)
class DescribeClientQuotasResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
    entries: list[EntryData] | None = field(default_factory=list)
