"""DescribeGroups, v0-v6: state and members of classic groups, each asked of its coordinator.

v3: authorized operations.  v4: instance ids.  v6: what is not there is GROUP_ID_NOT_FOUND.
"""

from typing import TYPE_CHECKING, Any

from penstock.broker.authorized import GROUP_OPERATIONS
from penstock.broker.coordinator_refusals import told
from penstock.broker.gathering import ask_about_groups
from penstock.broker.request import Request
from penstock.errors import NONE, KafkaError
from penstock.wire.messages.k15_describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(broker: "Broker", request: Request, message: DescribeGroupsRequest) -> None:
    def done(said: list[tuple[list[str], Any]]) -> None:
        described: dict[str, DescribedGroup] = {}
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
        groups = [described[group_id] for group_id in message.groups]
        request.reply(DescribeGroupsResponse(groups=groups))

    ask_about_groups(
        broker, request, message.groups, lambda mine: DescribeGroupsRequest(groups=mine), done
    )


def _refused(group_id: str, error: KafkaError) -> DescribedGroup:
    error = told(error)
    return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
