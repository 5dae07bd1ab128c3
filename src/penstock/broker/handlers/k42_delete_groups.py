"""DeleteGroups, v0-v2: groups without members go, and their offsets with them."""

from typing import TYPE_CHECKING, Any

from penstock.broker.coordinator_errors import client_error_code
from penstock.broker.coordinators.scatter_gather import ask_about_groups
from penstock.broker.request import ClientRequest
from penstock.errors import GroupAuthorizationFailed, KafkaError
from penstock.security.permissions import DELETE_GROUP
from penstock.wire.messages.k42_delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(broker: "Broker", request: ClientRequest, message: DeleteGroupsRequest) -> None:
    allowed = broker.access.allowed_names(request, DELETE_GROUP, message.groups_names)
    hidden = [each for each in message.groups_names if each not in allowed]

    def done(replies: list[tuple[list[str], Any]]) -> None:
        results: list[DeletableGroupResult] = []
        for group_ids, answer in [(hidden, GroupAuthorizationFailed()), *replies]:
            if isinstance(answer, KafkaError):
                results += [
                    DeletableGroupResult(group_id=group_id, error_code=client_error_code(answer))
                    for group_id in group_ids
                ]
            else:
                results += answer.results
        request.reply(DeleteGroupsResponse(results=results))

    ask_about_groups(
        broker.coordinators,
        request,
        [each for each in message.groups_names if each in allowed],
        lambda mine: DeleteGroupsRequest(groups_names=mine),
        done,
    )
