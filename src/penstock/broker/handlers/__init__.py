"""One file per API. The list below is what a node serves, and what ApiVersions says.

A listener of clients and a controller listener serve what wire/apis.py gives each of them. An API
of both may have `handle_on_controller` beside `handle`. A caller without the permission for a whole
request (security/permissions.py) does not reach the handler. The answer is the error of the
response, or what the handler's `denied` makes of the request.
"""

from collections.abc import Callable
from importlib import import_module
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from penstock.broker.request import ClientRequest
from penstock.broker.sliced_work import Slices
from penstock.credentials.acls import AclOperation
from penstock.errors import ClusterAuthorizationFailed, KafkaError
from penstock.security.permissions import PERMISSIONS
from penstock.wire.apis import response_class

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

# Returns the response, None if it answers later, or a generator that pauses and returns either.
Handler = Callable[["Broker", ClientRequest, Any], Any]

CONTROLLER = "controller"

HANDLERS: dict[int, str] = {
    0: "k00_produce",
    1: "k01_fetch",
    2: "k02_list_offsets",
    3: "k03_metadata",
    8: "k08_offset_commit",
    9: "k09_offset_fetch",
    10: "k10_find_coordinator",
    11: "k11_join_group",
    12: "k12_heartbeat",
    13: "k13_leave_group",
    14: "k14_sync_group",
    15: "k15_describe_groups",
    16: "k16_list_groups",
    17: "k17_sasl_handshake",
    18: "k18_api_versions",
    19: "k19_create_topics",
    20: "k20_delete_topics",
    21: "k21_delete_records",
    22: "k22_init_producer_id",
    23: "k23_offset_for_leader_epoch",
    24: "k24_add_partitions_to_txn",
    25: "k25_add_offsets_to_txn",
    26: "k26_end_txn",
    27: "k27_write_txn_markers",
    28: "k28_txn_offset_commit",
    29: "k29_describe_acls",
    30: "k30_create_acls",
    31: "k31_delete_acls",
    32: "k32_describe_configs",
    33: "k33_alter_configs",
    34: "k34_alter_replica_log_dirs",
    35: "k35_describe_log_dirs",
    36: "k36_sasl_authenticate",
    37: "k37_create_partitions",
    42: "k42_delete_groups",
    43: "k43_elect_leaders",
    44: "k44_incremental_alter_configs",
    45: "k45_alter_partition_reassignments",
    46: "k46_list_partition_reassignments",
    47: "k47_offset_delete",
    48: "k48_describe_client_quotas",
    49: "k49_alter_client_quotas",
    50: "k50_describe_user_scram_credentials",
    51: "k51_alter_user_scram_credentials",
    52: "k52_vote",
    53: "k53_begin_quorum_epoch",
    54: "k54_end_quorum_epoch",
    55: "k55_describe_quorum",
    56: "k56_alter_partition",
    57: "k57_update_features",
    58: "k58_envelope",
    59: "k59_fetch_snapshot",
    60: "k60_describe_cluster",
    61: "k61_describe_producers",
    62: "k62_broker_registration",
    63: "k63_broker_heartbeat",
    64: "k64_unregister_broker",
    65: "k65_describe_transactions",
    66: "k66_list_transactions",
    67: "k67_allocate_producer_ids",
    68: "k68_consumer_group_heartbeat",
    69: "k69_consumer_group_describe",
    70: "k70_controller_registration",
    73: "k73_assign_replicas_to_dirs",
    74: "k74_list_config_resources",
    75: "k75_describe_topic_partitions",
    10_000: "k10000_revoke_producer",
}

_loaded: dict[tuple[str, int], Handler] = {}


def handler_for(listener_kind: str, key: int) -> Handler:
    """Return the handler of an API on a kind of listener; load its code on first use."""
    handler = _loaded.get((listener_kind, key))
    if handler is None:
        module = import_module(f"penstock.broker.handlers.{HANDLERS[key]}")
        handler = module.handle
        if listener_kind == CONTROLLER:
            handler = getattr(module, "handle_on_controller", handler)
        assert key in PERMISSIONS, f"security/permissions.py has no line for the API {key}"
        operations = PERMISSIONS[key].whole_on(listener_kind)
        if operations:
            denied = getattr(module, "denied", None)
            handler = _guarded(handler, operations, denied)
        _loaded[listener_kind, key] = handler
    return handler


def _guarded(
    handler: Handler,
    operations: tuple[AclOperation, ...],
    denied: Callable[[Any, KafkaError], Any] | None,
) -> Handler:
    """Return a handler that callers reach with one of these permissions on the cluster."""

    def guarded(broker: "Broker", request: ClientRequest, message: Any) -> Any:
        if broker.access.allows_whole(request, operations):
            return handler(broker, request, message)
        error = ClusterAuthorizationFailed()
        if denied is not None:
            return denied(message, error)
        return whole_failure(request.api_key, error)

    return guarded


def whole_failure(key: int, error: KafkaError) -> Any:
    """Return an answer with the error of a whole request; raise the error without a field for
    it."""
    response = response_class(key)()
    if not hasattr(response, "error_code"):
        raise error
    response.error_code = error.code
    if hasattr(response, "error_message"):
        response.error_message = error.message
    return response


def handle(broker: "Broker", request: ClientRequest, message: Any) -> Slices[Any]:
    """Run the handler of a request; return its response, None if that comes later."""
    listener_kind = request.connection.listener.kind
    response = handler_for(listener_kind, request.api_key)(broker, request, message)
    if type(response) is GeneratorType:
        response = yield from response
    return response
