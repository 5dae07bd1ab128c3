"""DescribeGroups, v0-v6: state and members of classic groups, each asked of its coordinator.

v3: authorized operations.  v4: instance ids.  v6: an unknown group is GROUP_ID_NOT_FOUND.
"""

from typing import TYPE_CHECKING, Any

from penstock.broker.coordinators.scatter_gather import ask_about_groups, described_groups
from penstock.broker.request import ClientRequest
from penstock.credentials.acls import AclResourceType
from penstock.errors import GroupAuthorizationFailed
from penstock.security.permissions import DESCRIBE_GROUP
from penstock.wire.messages.k15_describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(broker: "Broker", request: ClientRequest, message: DescribeGroupsRequest) -> None:
    access = broker.access
    allowed = access.allowed_names(request, DESCRIBE_GROUP, message.groups)
    hidden = [each for each in message.groups if each not in allowed]

    def operations_on(group_id: str) -> int:
        return access.operations(request, AclResourceType.GROUP, group_id)

    def done(replies: list[tuple[list[str], Any]]) -> None:
        described = described_groups(
            [(hidden, GroupAuthorizationFailed()), *replies],
            DescribedGroup,
            operations_on if message.include_authorized_operations else None,
        )
        groups = [described[group_id] for group_id in message.groups]
        request.reply(DescribeGroupsResponse(groups=groups))

    ask_about_groups(
        broker.coordinators,
        request,
        [each for each in message.groups if each in allowed],
        lambda mine: DescribeGroupsRequest(groups=mine),
        done,
    )
