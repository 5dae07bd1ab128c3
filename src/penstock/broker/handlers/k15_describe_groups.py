"""DescribeGroups, v0-v6: state and members of classic groups, each asked of its coordinator.

v3: authorized operations.  v4: instance ids.  v6: an unknown group is GROUP_ID_NOT_FOUND.
"""

from typing import TYPE_CHECKING, Any

from penstock.broker.coordinator_errors import to_client_error
from penstock.broker.coordinators.scatter_gather import ask_about_groups
from penstock.broker.metadata.authorized_operations import GROUP_OPERATIONS
from penstock.broker.request import ClientRequest
from penstock.errors import NONE, KafkaError
from penstock.wire.messages.k15_describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(broker: "Broker", request: ClientRequest, message: DescribeGroupsRequest) -> None:
    def done(replies: list[tuple[list[str], Any]]) -> None:
        described: dict[str, DescribedGroup] = {}
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
        groups = [described[group_id] for group_id in message.groups]
        request.reply(DescribeGroupsResponse(groups=groups))

    ask_about_groups(
        broker.coordinators,
        request,
        message.groups,
        lambda mine: DescribeGroupsRequest(groups=mine),
        done,
    )


def _rejected(group_id: str, error: KafkaError) -> DescribedGroup:
    error = to_client_error(error)
    return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
