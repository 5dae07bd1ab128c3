"""ListGroups, v0-v5: every group that this node coordinates.  v4: by state.  v5: by type.

One coordinator that is still loading fails the whole question: a list with holes would mislead.
"""

from typing import TYPE_CHECKING, Any

from penstock.broker.coordinator_refusals import told_code
from penstock.broker.gathering import ask_each
from penstock.broker.request import Request
from penstock.errors import KafkaError, NotCoordinator
from penstock.wire.messages.k16_list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(broker: "Broker", request: Request, message: ListGroupsRequest) -> None:
    def done(answers: list[Any]) -> None:
        whole = ListGroupsResponse()
        for answer in answers:
            if isinstance(answer, NotCoordinator):
                continue  # whoever leads that partition lists its groups
            if isinstance(answer, KafkaError):
                request.reply(ListGroupsResponse(error_code=told_code(answer)))
                return
            whole.groups += answer.groups
        request.reply(whole)

    call = broker.coordinators.call(request, message)
    ask_each([(runtime, call) for runtime in broker.coordinators.all_groups()], done)
