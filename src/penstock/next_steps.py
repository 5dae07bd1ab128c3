"""The next step for a person after a broker's error, by Kafka's name of the error.

Errors that clients resolve themselves (a session to restart, a leader that moved) are marked so;
errors between brokers have no entry.
"""

from collections.abc import Mapping

_ITSELF = "Nothing to do: the client finds the new place by itself and tries again"
_RIGHTS = (
    "Let the principal's administrator grant it (`kafka-acls --add`), or use another principal"
)
_AGAIN = "Try again in a moment"
_BROKERS = "Bring the missing brokers back (`penstock broker list`)"
_REJOIN = "Nothing to do: the member joins the group again"
_NEW_PRODUCER = "Close this producer and make a new one"

NEXT_STEPS: Mapping[str, str] = {
    "UNKNOWN_SERVER_ERROR": "Look into the broker's log: it has the cause",
    "OFFSET_OUT_OF_RANGE": "Seek to an offset that is still there, or set auto.offset.reset to "
    "earliest or latest",
    "CORRUPT_MESSAGE": "Try again; if it stays, look into the broker's log for the damaged batch",
    "UNKNOWN_TOPIC_OR_PARTITION": "Create the topic (`penstock topic create`), or correct its name",
    "INVALID_FETCH_SIZE": "Set fetch.max.bytes and max.partition.fetch.bytes above 0",
    "LEADER_NOT_AVAILABLE": f"{_AGAIN}; if it stays, a broker with a replica of it is missing",
    "NOT_LEADER_OR_FOLLOWER": _ITSELF,
    "REQUEST_TIMED_OUT": "See whether enough replicas are in sync and not overloaded; raise "
    "request.timeout.ms",
    "BROKER_NOT_AVAILABLE": _BROKERS,
    "REPLICA_NOT_AVAILABLE": _AGAIN,
    "MESSAGE_TOO_LARGE": "Send less at once (max.request.size, batch.size), compress, or raise the "
    "topic's max.message.bytes",
    "OFFSET_METADATA_TOO_LARGE": "Commit with shorter metadata; the broker's "
    "offset.metadata.max.bytes is the limit",
    "NETWORK_EXCEPTION": "See whether the broker is reachable; the client tries again",
    "COORDINATOR_LOAD_IN_PROGRESS": f"{_AGAIN}: the coordinator is reading its log",
    "COORDINATOR_NOT_AVAILABLE": f"{_AGAIN}; if it stays, see whether all brokers run",
    "NOT_COORDINATOR": _ITSELF,
    "INVALID_TOPIC_EXCEPTION": "Use letters, digits, dots, underscores and dashes, at most 249",
    "RECORD_LIST_TOO_LARGE": "Lower batch.size, or raise the broker's log.segment.bytes",
    "NOT_ENOUGH_REPLICAS": f"{_BROKERS}, or lower the topic's min.insync.replicas",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": f"{_BROKERS}; the record is written, and sent again it may "
    "be there twice unless enable.idempotence is true",
    "INVALID_REQUIRED_ACKS": "Set acks to all, 1 or 0",
    "ILLEGAL_GENERATION": _REJOIN,
    "INCONSISTENT_GROUP_PROTOCOL": "Give all members of the group a partition.assignment.strategy "
    "in common, and one group.protocol",
    "INVALID_GROUP_ID": "Set a group.id that is not empty",
    "UNKNOWN_MEMBER_ID": _REJOIN,
    "INVALID_SESSION_TIMEOUT": "Choose session.timeout.ms between the broker's "
    "group.min.session.timeout.ms and group.max.session.timeout.ms",
    "REBALANCE_IN_PROGRESS": _REJOIN,
    "INVALID_COMMIT_OFFSET_SIZE": "Commit fewer offsets, or shorter metadata, at once",
    "TOPIC_AUTHORIZATION_FAILED": _RIGHTS,
    "GROUP_AUTHORIZATION_FAILED": _RIGHTS,
    "CLUSTER_AUTHORIZATION_FAILED": _RIGHTS,
    "INVALID_TIMESTAMP": "Send the record with a time that the topic allows "
    "(message.timestamp.before.max.ms, message.timestamp.after.max.ms)",
    "UNSUPPORTED_SASL_MECHANISM": "Set sasl.mechanism to one that the broker's "
    "sasl.enabled.mechanisms lists",
    "ILLEGAL_SASL_STATE": "See whether security.protocol is what the listener expects",
    "UNSUPPORTED_VERSION": "Use a newer broker, or do without: it does not serve this request",
    "TOPIC_ALREADY_EXISTS": "Use it as it is, or choose another name",
    "INVALID_PARTITIONS": "Ask for at least 1 partition; of a topic that is there, for more",
    "INVALID_REPLICATION_FACTOR": "Ask for at most as many replicas as there are brokers",
    "INVALID_REPLICA_ASSIGNMENT": "Name brokers that exist, each once per partition",
    "INVALID_CONFIG": "Correct the key or value that the text names",
    "NOT_CONTROLLER": _ITSELF,
    "INVALID_REQUEST": "Correct what the text names; if it names nothing, the broker's log does",
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": "Use a broker of Kafka 0.11 or newer",
    "POLICY_VIOLATION": "Ask the cluster's administrator which policy it is",
    "OUT_OF_ORDER_SEQUENCE_NUMBER": f"{_NEW_PRODUCER}: records between were lost on the way",
    "DUPLICATE_SEQUENCE_NUMBER": "Nothing to do: the record is there",
    "INVALID_PRODUCER_EPOCH": "Abort the transaction; if another producer uses the same "
    "transactional.id, stop one of them",
    "INVALID_TXN_STATE": "Abort the transaction and begin a new one",
    "INVALID_PRODUCER_ID_MAPPING": f"{_NEW_PRODUCER}: its id has expired",
    "INVALID_TRANSACTION_TIMEOUT": "Set transaction.timeout.ms to at most the broker's "
    "transaction.max.timeout.ms",
    "CONCURRENT_TRANSACTIONS": f"{_AGAIN}: the last transaction is still being finished",
    "TRANSACTION_COORDINATOR_FENCED": _ITSELF,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": _RIGHTS,
    "SECURITY_DISABLED": "Configure an authorizer on the brokers (authorizer.class.name)",
    "OPERATION_NOT_ATTEMPTED": "See the error of the other item: this one was not tried",
    "KAFKA_STORAGE_ERROR": "Look into the broker's log: a disk failed or is full",
    "LOG_DIR_NOT_FOUND": "Name a directory that the broker's log.dirs lists",
    "SASL_AUTHENTICATION_FAILED": "Check sasl.mechanism and the user and password in "
    "sasl.jaas.config",
    "UNKNOWN_PRODUCER_ID": f"{_NEW_PRODUCER}: the broker no longer knows its records",
    "REASSIGNMENT_IN_PROGRESS": "Wait until it has ended (`kafka-reassign-partitions --list`)",
    "DELEGATION_TOKEN_AUTH_DISABLED": "Set delegation.token.secret.key on the brokers",
    "DELEGATION_TOKEN_NOT_FOUND": "Create a token, or see whether it has expired",
    "DELEGATION_TOKEN_OWNER_MISMATCH": "Let the owner or a renewer of the token ask",
    "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED": "Ask over a connection with SASL or TLS, and not with "
    "a token",
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED": _RIGHTS,
    "DELEGATION_TOKEN_EXPIRED": "Create a new token",
    "INVALID_PRINCIPAL_TYPE": "Write the principal as User:name",
    "NON_EMPTY_GROUP": "Stop the members of the group first (`penstock group describe`)",
    "GROUP_ID_NOT_FOUND": "See which groups there are (`penstock group list`)",
    "FETCH_SESSION_ID_NOT_FOUND": _ITSELF,
    "INVALID_FETCH_SESSION_EPOCH": _ITSELF,
    "LISTENER_NOT_FOUND": "Give the leader's broker a listener of this name",
    "TOPIC_DELETION_DISABLED": "Set delete.topic.enable=true on the brokers",
    "FENCED_LEADER_EPOCH": _ITSELF,
    "UNKNOWN_LEADER_EPOCH": _ITSELF,
    "UNSUPPORTED_COMPRESSION_TYPE": "Use another compression.type, or a newer client",
    "OFFSET_NOT_AVAILABLE": _AGAIN,
    "MEMBER_ID_REQUIRED": _REJOIN,
    "PREFERRED_LEADER_NOT_AVAILABLE": _BROKERS,
    "GROUP_MAX_SIZE_REACHED": "Stop a member, or raise the broker's group.max.size "
    "(group.consumer.max.size)",
    "FENCED_INSTANCE_ID": "Give each instance its own group.instance.id: another one uses this",
    "ELIGIBLE_LEADERS_NOT_AVAILABLE": f"{_BROKERS}, or allow an unclean election and lose "
    "what only they have",
    "ELECTION_NOT_NEEDED": "Nothing to do: the leader is the wanted one",
    "NO_REASSIGNMENT_IN_PROGRESS": "Nothing to do: nothing is being moved",
    "GROUP_SUBSCRIBED_TO_TOPIC": "Stop the members that read the topic first",
    "INVALID_RECORD": "Correct the record: the text says which; compacted topics need keys",
    "UNSTABLE_OFFSET_COMMIT": f"{_AGAIN}: a transaction with these offsets is open",
    "THROTTLING_QUOTA_EXCEEDED": "Ask less often, or raise the quota of the user or client",
    "PRODUCER_FENCED": "Stop this producer: another one with the same transactional.id took over",
    "RESOURCE_NOT_FOUND": "See whether the name is right",
    "DUPLICATE_RESOURCE": "Name each thing once per request",
    "UNACCEPTABLE_CREDENTIAL": "Choose another password, and 4096 to 16384 iterations",
    "INVALID_UPDATE_VERSION": "Choose a level that the brokers support "
    "(`penstock cluster features`)",
    "FEATURE_UPDATE_FAILED": "See the text, and whether all brokers support the level",
    "UNKNOWN_TOPIC_ID": "The topic was deleted, perhaps created again: the client fetches metadata",
    "BROKER_ID_NOT_REGISTERED": "See which brokers there are (`penstock broker list`)",
    "INCONSISTENT_TOPIC_ID": "The topic was created again: the client fetches metadata",
    "TRANSACTIONAL_ID_NOT_FOUND": "See which there are (`penstock txn list`)",
    "FETCH_SESSION_TOPIC_ID_ERROR": _ITSELF,
    "OFFSET_MOVED_TO_TIERED_STORAGE": "Use a client that reads tiered storage",
    "FENCED_MEMBER_EPOCH": _REJOIN,
    "UNRELEASED_INSTANCE_ID": "Wait until the old instance has left, or give this one another "
    "group.instance.id",
    "UNSUPPORTED_ASSIGNOR": "Set group.remote.assignor to one of the broker's "
    "group.consumer.assignors",
    "STALE_MEMBER_EPOCH": _REJOIN,
    "MISMATCHED_ENDPOINT_TYPE": "Give brokers to bootstrap.servers and controllers to "
    "bootstrap.controllers",
    "UNSUPPORTED_ENDPOINT_TYPE": "Ask a broker instead of a controller, or the other way round",
    "UNKNOWN_CONTROLLER_ID": "List the members of the quorum (`penstock quorum describe`)",
    "UNKNOWN_SUBSCRIPTION_ID": _ITSELF,
    "TELEMETRY_TOO_LARGE": "Set enable.metrics.push=false, or subscribe to fewer metrics",
    "TRANSACTION_ABORTABLE": "Abort the transaction and begin a new one",
    "INVALID_RECORD_STATE": "Acknowledge a record once, and within its lock's time",
    "SHARE_SESSION_NOT_FOUND": _ITSELF,
    "INVALID_SHARE_SESSION_EPOCH": _ITSELF,
    "INVALID_VOTER_KEY": "Name the voter with the directory id that its broker has",
    "DUPLICATE_VOTER": "Nothing to do: it is a voter",
    "VOTER_NOT_FOUND": "List the members of the quorum (`penstock quorum describe`)",
    "INVALID_REGULAR_EXPRESSION": "Write the pattern in RE2's notation",
    "REBOOTSTRAP_REQUIRED": "Nothing to do: the client begins again with bootstrap.servers",
    "STREAMS_INVALID_TOPOLOGY": "Correct the topology: the text says what is wrong with it",
    "STREAMS_INVALID_TOPOLOGY_EPOCH": "Give all instances the same topology",
    "STREAMS_TOPOLOGY_FENCED": "Update this instance: others run a newer topology",
    "SHARE_SESSION_LIMIT_REACHED": f"{_AGAIN}, or raise group.share.max.share.sessions",
}
