"""The permissions that each API needs, as data. An API without a line here is not served.

`whole` is asked before the handler: one of these operations on the cluster, or the whole request is
denied. `parts` is what the handler asks of single resources; a handler that asks for anything else
fails. On a controller listener `on_controller` replaces `whole`, if there is one.
"""

from typing import Final, NamedTuple

from penstock.credentials.acls import AclOperation as Op
from penstock.credentials.acls import AclResourceType as Kind
from penstock.errors import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    KafkaError,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)


class Need(NamedTuple):
    """An operation on a resource of a type."""

    operation: Op
    kind: Kind

    @property
    def error(self) -> type[KafkaError]:
        """Return the error of a caller without this permission."""
        return DENIALS[self.kind]


DENIALS: Final[dict[Kind, type[KafkaError]]] = {
    Kind.TOPIC: TopicAuthorizationFailed,
    Kind.GROUP: GroupAuthorizationFailed,
    Kind.CLUSTER: ClusterAuthorizationFailed,
    Kind.TRANSACTIONAL_ID: TransactionalIdAuthorizationFailed,
}

READ_TOPIC: Final = Need(Op.READ, Kind.TOPIC)
WRITE_TOPIC: Final = Need(Op.WRITE, Kind.TOPIC)
CREATE_TOPIC: Final = Need(Op.CREATE, Kind.TOPIC)
DELETE_TOPIC: Final = Need(Op.DELETE, Kind.TOPIC)
ALTER_TOPIC: Final = Need(Op.ALTER, Kind.TOPIC)
DESCRIBE_TOPIC: Final = Need(Op.DESCRIBE, Kind.TOPIC)
DESCRIBE_TOPIC_CONFIGS: Final = Need(Op.DESCRIBE_CONFIGS, Kind.TOPIC)
ALTER_TOPIC_CONFIGS: Final = Need(Op.ALTER_CONFIGS, Kind.TOPIC)
READ_GROUP: Final = Need(Op.READ, Kind.GROUP)
DELETE_GROUP: Final = Need(Op.DELETE, Kind.GROUP)
DESCRIBE_GROUP: Final = Need(Op.DESCRIBE, Kind.GROUP)
DESCRIBE_GROUP_CONFIGS: Final = Need(Op.DESCRIBE_CONFIGS, Kind.GROUP)
ALTER_GROUP_CONFIGS: Final = Need(Op.ALTER_CONFIGS, Kind.GROUP)
WRITE_TRANSACTIONAL_ID: Final = Need(Op.WRITE, Kind.TRANSACTIONAL_ID)
DESCRIBE_TRANSACTIONAL_ID: Final = Need(Op.DESCRIBE, Kind.TRANSACTIONAL_ID)
TWO_PHASE_COMMIT: Final = Need(Op.TWO_PHASE_COMMIT, Kind.TRANSACTIONAL_ID)
CREATE_CLUSTER: Final = Need(Op.CREATE, Kind.CLUSTER)
DELETE_CLUSTER: Final = Need(Op.DELETE, Kind.CLUSTER)
DESCRIBE_CLUSTER: Final = Need(Op.DESCRIBE, Kind.CLUSTER)
DESCRIBE_CLUSTER_CONFIGS: Final = Need(Op.DESCRIBE_CONFIGS, Kind.CLUSTER)
ALTER_CLUSTER_CONFIGS: Final = Need(Op.ALTER_CONFIGS, Kind.CLUSTER)
CLUSTER_ACTION: Final = Need(Op.CLUSTER_ACTION, Kind.CLUSTER)
IDEMPOTENT_WRITE: Final = Need(Op.IDEMPOTENT_WRITE, Kind.CLUSTER)


class ApiPermissions(NamedTuple):
    """The permissions that one API asks for."""

    parts: tuple[Need, ...] = ()
    whole: tuple[Op, ...] = ()
    on_controller: tuple[Op, ...] | None = None

    def whole_on(self, listener_kind: str) -> tuple[Op, ...]:
        """Return the operations of which one is needed for the whole request."""
        if listener_kind == "controller" and self.on_controller is not None:
            return self.on_controller
        return self.whole


def _parts(*needs: Need) -> ApiPermissions:
    return ApiPermissions(parts=needs)


_NONE = ApiPermissions()
_ALTER = ApiPermissions(whole=(Op.ALTER,))
_DESCRIBE = ApiPermissions(whole=(Op.DESCRIBE,))
_BETWEEN_NODES = ApiPermissions(whole=(Op.CLUSTER_ACTION,))
_CONFIGS_ALTERED = (ALTER_TOPIC_CONFIGS, ALTER_GROUP_CONFIGS, ALTER_CLUSTER_CONFIGS)

PERMISSIONS: Final[dict[int, ApiPermissions]] = {
    0: _parts(WRITE_TOPIC, WRITE_TRANSACTIONAL_ID),
    1: ApiPermissions((READ_TOPIC, CLUSTER_ACTION), on_controller=(Op.CLUSTER_ACTION,)),
    2: _parts(DESCRIBE_TOPIC),
    3: _parts(DESCRIBE_TOPIC, CREATE_TOPIC, CREATE_CLUSTER, DESCRIBE_CLUSTER),
    8: _parts(READ_GROUP, READ_TOPIC),
    9: _parts(DESCRIBE_GROUP, DESCRIBE_TOPIC),
    10: _parts(DESCRIBE_GROUP, DESCRIBE_TRANSACTIONAL_ID),
    11: _parts(READ_GROUP),
    12: _parts(READ_GROUP),
    13: _parts(READ_GROUP),
    14: _parts(READ_GROUP),
    15: _parts(DESCRIBE_GROUP),
    16: _parts(DESCRIBE_CLUSTER, DESCRIBE_GROUP),
    17: _NONE,
    18: _NONE,
    19: _parts(CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_TOPIC_CONFIGS),
    20: _parts(DELETE_CLUSTER, DESCRIBE_TOPIC, DELETE_TOPIC),
    21: _parts(DELETE_TOPIC),
    22: _parts(WRITE_TRANSACTIONAL_ID, TWO_PHASE_COMMIT, IDEMPOTENT_WRITE, WRITE_TOPIC),
    23: _parts(CLUSTER_ACTION, DESCRIBE_TOPIC),
    24: _parts(WRITE_TRANSACTIONAL_ID, WRITE_TOPIC, CLUSTER_ACTION),
    25: _parts(WRITE_TRANSACTIONAL_ID, READ_GROUP),
    26: _parts(WRITE_TRANSACTIONAL_ID),
    27: ApiPermissions(whole=(Op.ALTER, Op.CLUSTER_ACTION)),
    28: _parts(WRITE_TRANSACTIONAL_ID, READ_GROUP, READ_TOPIC),
    29: _DESCRIBE,
    30: _ALTER,
    31: _ALTER,
    32: _parts(DESCRIBE_TOPIC_CONFIGS, DESCRIBE_GROUP_CONFIGS, DESCRIBE_CLUSTER_CONFIGS),
    33: _parts(*_CONFIGS_ALTERED),
    34: _ALTER,
    35: _DESCRIBE,
    36: _NONE,
    37: _parts(ALTER_TOPIC),
    42: _parts(DELETE_GROUP),
    43: _ALTER,
    44: _parts(*_CONFIGS_ALTERED, CLUSTER_ACTION),
    45: _ALTER,
    46: _DESCRIBE,
    47: _parts(DELETE_GROUP, READ_TOPIC),
    48: ApiPermissions(whole=(Op.DESCRIBE_CONFIGS,)),
    49: ApiPermissions(whole=(Op.ALTER_CONFIGS,)),
    50: _DESCRIBE,
    51: _ALTER,
    52: _BETWEEN_NODES,
    53: _BETWEEN_NODES,
    54: _BETWEEN_NODES,
    55: _DESCRIBE,
    56: _BETWEEN_NODES,
    57: _ALTER,
    58: _BETWEEN_NODES,
    59: _BETWEEN_NODES,
    60: ApiPermissions((DESCRIBE_CLUSTER,), on_controller=(Op.ALTER,)),
    61: _parts(READ_TOPIC),
    62: _BETWEEN_NODES,
    63: _BETWEEN_NODES,
    64: _ALTER,
    65: _parts(DESCRIBE_TRANSACTIONAL_ID, DESCRIBE_TOPIC),
    66: _parts(DESCRIBE_TRANSACTIONAL_ID),
    67: _BETWEEN_NODES,
    68: _parts(READ_GROUP, DESCRIBE_TOPIC),
    69: _parts(DESCRIBE_GROUP, DESCRIBE_TOPIC),
    70: _BETWEEN_NODES,
    73: _BETWEEN_NODES,
    74: ApiPermissions(whole=(Op.DESCRIBE_CONFIGS,)),
    75: _parts(DESCRIBE_TOPIC),
    10_000: _BETWEEN_NODES,
}
