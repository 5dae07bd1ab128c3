"""ConsumerGroupDescribe, v0-v1: consumer groups as they are, each asked of its coordinator.

v1: whether a member speaks the classic or the consumer protocol.
UNSUPPORTED_VERSION where the consumer protocol is off, as for ConsumerGroupHeartbeat.
"""

from typing import TYPE_CHECKING, Any

from penstock.broker.coordinators.scatter_gather import ask_about_groups, described_groups
from penstock.broker.request import ClientRequest
from penstock.errors import InvalidGroupId, UnsupportedVersion
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

    def done(replies: list[tuple[list[str], Any]]) -> None:
        unnamed = ([""], InvalidGroupId("the group id is missing"))
        described = described_groups(
            [unnamed, *replies],
            DescribedGroup,
            with_operations=message.include_authorized_operations,
        )
        groups = [described[group_id] for group_id in message.group_ids]
        request.reply(ConsumerGroupDescribeResponse(groups=groups))

    ask_about_groups(
        broker.coordinators,
        request,
        [group_id for group_id in message.group_ids if group_id],
        lambda mine: ConsumerGroupDescribeRequest(group_ids=mine),
        done,
    )
