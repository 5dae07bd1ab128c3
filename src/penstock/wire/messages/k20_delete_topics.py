"""DeleteTopics, v1-v6.

v4: flexible.  v5: error message; may be throttled.  v6: by name or by id.
"""

from penstock.wire.primitives import ZERO_UUID, Int16, Int32, Uuid
from penstock.wire.schema import field, message, struct


@struct
class DeleteTopicState:
    name: str | None = None
    topic_id: Uuid = ZERO_UUID


@message(key=20, versions="1-6", flexible=4)
class DeleteTopicsRequest:
    topics: list[DeleteTopicState] = field("6+", default_factory=list)
    topic_names: list[str] = field("0-5", default_factory=list)
    timeout_ms: Int32 = 0


@struct
class DeletableTopicResult:
    name: str | None = field(nullable="6+", default="")
    topic_id: Uuid = field("6+", default=ZERO_UUID)
    error_code: Int16 = 0
    error_message: str | None = field("5+", default=None)


@message(key=20, versions="1-6", flexible=4, response=True)
class DeleteTopicsResponse:
    throttle_time_ms: Int32 = 0
    responses: list[DeletableTopicResult] = field(default_factory=list)
