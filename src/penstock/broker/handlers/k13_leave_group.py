"""LeaveGroup, v0-v5: members go, by themselves or sent by an administrator.

v3: many members, each with its own error, static ones by instance id.  v5: reason.
"""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.errors import GroupAuthorizationFailed, InvalidGroupId, KafkaError
from penstock.security.permissions import READ_GROUP
from penstock.wire.messages.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(
    broker: "Broker", request: ClientRequest, message: LeaveGroupRequest
) -> LeaveGroupResponse | None:
    if not broker.access.allows(request, READ_GROUP, message.group_id):
        return LeaveGroupResponse(error_code=GroupAuthorizationFailed.code)
    if not message.group_id:
        return LeaveGroupResponse(error_code=InvalidGroupId.code)
    broker.coordinators.ask_group(message.group_id, request, message, _rejected)
    return None


def _rejected(error: KafkaError) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=error.code)
