"""ConsumerGroupDescribe, v0-v1: consumer groups as they are, each asked of its coordinator.

v1: whether a member speaks the classic or the consumer protocol.
UNSUPPORTED_VERSION where the consumer protocol is off, as for ConsumerGroupHeartbeat.
"""

from typing import TYPE_CHECKING, Any

from penstock.broker.coordinator_errors import to_client_error
from penstock.broker.coordinators.scatter_gather import ask_about_groups
from penstock.broker.metadata.authorized_operations import GROUP_OPERATIONS
from penstock.broker.request import ClientRequest
from penstock.errors import NONE, InvalidGroupId, KafkaError, UnsupportedVersion
from penstock.wire.messages.k69_consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(broker: "Broker", request: ClientRequest, message: ConsumerGroupDescribeRequest) -> None:
    if not broker.coordinators.serves_consumer_protocol:
        off = UnsupportedVersion.code
        groups = [DescribedGroup(group_id=each, error_code=off) for each in message.group_ids]
        request.reply(ConsumerGroupDescribeResponse(groups=groups))
        return
    described: dict[str, DescribedGroup] = {}

    def done(replies: list[tuple[list[str], Any]]) -> None:
        for group_ids, answer in replies:
            for place, group_id in enumerate(group_ids):
                rejected = isinstance(answer, KafkaError)
                described[group_id] = (
                    _rejected(group_id, answer) if rejected else answer.groups[place]
                )
        if message.include_authorized_operations:
            for group in described.values():
                if group.error_code == NONE:
                    group.authorized_operations = GROUP_OPERATIONS
        groups = [described[group_id] for group_id in message.group_ids]
        request.reply(ConsumerGroupDescribeResponse(groups=groups))

    if "" in message.group_ids:
        described[""] = _rejected("", InvalidGroupId("the group id is missing"))
    ask_about_groups(
        broker.coordinators,
        request,
        [group_id for group_id in message.group_ids if group_id],
        lambda mine: ConsumerGroupDescribeRequest(group_ids=mine),
        done,
    )


def _rejected(group_id: str, error: KafkaError) -> DescribedGroup:
    error = to_client_error(error)
    return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
