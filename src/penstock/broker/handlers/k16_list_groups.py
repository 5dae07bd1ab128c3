"""ListGroups, v0-v5: every group that this node coordinates.  v4: by state.  v5: by type.

One coordinator that is still loading fails the whole question: a list with holes would mislead.
"""

from typing import TYPE_CHECKING

from penstock.broker.coordinator_errors import client_error_code
from penstock.broker.coordinators.scatter_gather import ask_in_turn
from penstock.broker.request import ClientRequest
from penstock.broker.sliced_work import Slices
from penstock.errors import InvalidRequest, KafkaError, NotCoordinator
from penstock.security.permissions import DESCRIBE_CLUSTER, DESCRIBE_GROUP
from penstock.wire.messages.k16_list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

FILTERS_MAX = 1_000  # of either kind, which each coordinator goes through; there are a dozen states


def handle(
    broker: "Broker", request: ClientRequest, message: ListGroupsRequest
) -> Slices[ListGroupsResponse]:
    if max(len(message.states_filter), len(message.types_filter)) > FILTERS_MAX:
        return ListGroupsResponse(error_code=InvalidRequest.code)
    access = broker.access
    every = access.allows_on_cluster(request, DESCRIBE_CLUSTER, quiet=True)

    def may_see(group_id: str) -> bool:
        return every or access.allows(request, DESCRIBE_GROUP, group_id, quiet=True)

    call = broker.coordinators.call(request, message)
    whole = ListGroupsResponse()
    for answer in (yield from ask_in_turn(broker.coordinators.all_groups(), call)):
        if isinstance(answer, NotCoordinator):
            continue  # the leader of that partition lists its groups
        if isinstance(answer, KafkaError):
            return ListGroupsResponse(error_code=client_error_code(answer))
        whole.groups += [each for each in answer.groups if may_see(each.group_id)]
    return whole
