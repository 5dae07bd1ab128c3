"""ConsumerGroupDescribe, v0-v1: consumer groups as they are, each asked of its coordinator.

v1: whether a member speaks the classic or the consumer protocol.
UNSUPPORTED_VERSION where the consumer protocol is off, as for ConsumerGroupHeartbeat.
"""

from typing import TYPE_CHECKING, Any

from penstock.broker.authorized import GROUP_OPERATIONS
from penstock.broker.coordinator_refusals import told
from penstock.broker.gathering import ask_about_groups
from penstock.broker.request import Request
from penstock.errors import NONE, InvalidGroupId, KafkaError, UnsupportedVersion
from penstock.wire.messages.k69_consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(broker: "Broker", request: Request, message: ConsumerGroupDescribeRequest) -> None:
    if not broker.coordinators.serves_consumer_protocol:
        off = UnsupportedVersion.code
        groups = [DescribedGroup(group_id=each, error_code=off) for each in message.group_ids]
        request.reply(ConsumerGroupDescribeResponse(groups=groups))
        return
    described: dict[str, DescribedGroup] = {}

    def done(said: list[tuple[list[str], Any]]) -> None:
        for group_ids, answer in said:
            for place, group_id in enumerate(group_ids):
                refused = isinstance(answer, KafkaError)
                described[group_id] = (
                    _refused(group_id, answer) if refused else answer.groups[place]
                )
        if message.include_authorized_operations:
            for group in described.values():
                if group.error_code == NONE:
                    group.authorized_operations = GROUP_OPERATIONS
        groups = [described[group_id] for group_id in message.group_ids]
        request.reply(ConsumerGroupDescribeResponse(groups=groups))

    if "" in message.group_ids:
        described[""] = _refused("", InvalidGroupId("the group id is missing"))
    ask_about_groups(
        broker,
        request,
        [group_id for group_id in message.group_ids if group_id],
        lambda mine: ConsumerGroupDescribeRequest(group_ids=mine),
        done,
    )


def _refused(group_id: str, error: KafkaError) -> DescribedGroup:
    error = told(error)
    return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
