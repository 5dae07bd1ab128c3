"""JoinGroup, v0-v9: become part of the next generation of a group.

Answered when the rebalance ends.  v4: a new member is told its id first.  v5: static members.
v7: no protocol is null, not empty.  v9: the leader may be told to skip the assignment.
"""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.coordinator.groups.classic.replies import join_error
from penstock.errors import (
    GroupAuthorizationFailed,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidRequest,
    KafkaError,
)
from penstock.security.permissions import READ_GROUP
from penstock.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

PROTOCOLS_MAX = 1_000  # of one member, which offers one or two
# A member id is the client's or the instance's name and a UUID; a string has 32,767 bytes at most.
NAME_BYTES_MAX = 32_767 - 37


def handle(
    broker: "Broker", request: ClientRequest, message: JoinGroupRequest
) -> JoinGroupResponse | None:
    def rejected(error: KafkaError) -> JoinGroupResponse:
        return join_error(type(error), request.api_version)

    def may_have() -> bool:
        return broker.access.allows(request, READ_GROUP, message.group_id)

    if not may_have():
        return join_error(GroupAuthorizationFailed, request.api_version, message.member_id)
    if not message.group_id:
        return join_error(InvalidGroupId, request.api_version, message.member_id)
    name = message.group_instance_id or request.client_id or ""
    if len(name.encode()) > NAME_BYTES_MAX:
        return join_error(InvalidRequest, request.api_version, message.member_id)
    if len(message.protocols) > PROTOCOLS_MAX:
        return join_error(InconsistentGroupProtocol, request.api_version, message.member_id)
    broker.coordinators.ask_group(message.group_id, request, message, rejected, may_have)
    return None
