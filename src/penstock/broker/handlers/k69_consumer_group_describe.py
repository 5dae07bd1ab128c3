"""ConsumerGroupDescribe, v0-v1: consumer groups as they are, each asked of its coordinator.

v1: whether a member speaks the classic or the consumer protocol.
UNSUPPORTED_VERSION where the consumer protocol is off, as for ConsumerGroupHeartbeat. A group with
assigned topics that the caller may not describe has an error and no members.
"""

from typing import TYPE_CHECKING, Any

from penstock.broker.coordinators.scatter_gather import ask_about_groups, described_groups
from penstock.broker.request import ClientRequest
from penstock.credentials.acls import AclResourceType
from penstock.errors import (
    GroupAuthorizationFailed,
    InvalidGroupId,
    TopicAuthorizationFailed,
    UnsupportedVersion,
)
from penstock.security.permissions import DESCRIBE_GROUP, DESCRIBE_TOPIC
from penstock.wire.messages.k69_consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

# Kafka's own words.
HIDDEN_TOPICS = "The described group uses topics that the client is not authorized to describe."


def handle(broker: "Broker", request: ClientRequest, message: ConsumerGroupDescribeRequest) -> None:
    if not broker.coordinators.serves_consumer_protocol:
        off = UnsupportedVersion.code
        groups = [DescribedGroup(group_id=each, error_code=off) for each in message.group_ids]
        request.reply(ConsumerGroupDescribeResponse(groups=groups))
        return

    access = broker.access
    allowed = access.allowed_names(request, DESCRIBE_GROUP, message.group_ids)
    hidden = [each for each in message.group_ids if each not in allowed]

    def operations_on(group_id: str) -> int:
        return access.operations(request, AclResourceType.GROUP, group_id)

    def done(replies: list[tuple[list[str], Any]]) -> None:
        unnamed = ([""], InvalidGroupId("the group id is missing"))
        described = described_groups(
            [unnamed, (hidden, GroupAuthorizationFailed()), *replies],
            DescribedGroup,
            operations_on if message.include_authorized_operations else None,
        )
        groups = [_visible(broker, request, described[each]) for each in message.group_ids]
        request.reply(ConsumerGroupDescribeResponse(groups=groups))

    ask_about_groups(
        broker.coordinators,
        request,
        [group_id for group_id in message.group_ids if group_id and group_id in allowed],
        lambda mine: ConsumerGroupDescribeRequest(group_ids=mine),
        done,
    )


def _visible(broker: "Broker", request: ClientRequest, group: DescribedGroup) -> DescribedGroup:
    """Return the description, or an error if the group has topics that the caller may not see."""
    names = (
        each.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for each in assignment.topic_partitions
    )
    if all(broker.access.allows(request, DESCRIBE_TOPIC, each) for each in dict.fromkeys(names)):
        return group
    return DescribedGroup(
        group_id=group.group_id,
        error_code=TopicAuthorizationFailed.code,
        error_message=HIDDEN_TOPICS,
    )
