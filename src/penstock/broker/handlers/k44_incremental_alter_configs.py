"""IncrementalAlterConfigs, v0-v1: sets, removes, appends, subtracts.

Log levels are changed here and last until this process ends; the rest the controller answers.
"""

from collections import Counter
from typing import TYPE_CHECKING

from penstock.broker.background import loggers
from penstock.broker.handlers import CONTROLLER
from penstock.broker.handlers.k33_alter_configs import denial, reject_each
from penstock.broker.request import ClientRequest
from penstock.controller.configs import DELETE, SET
from penstock.controller.image import BROKER, BROKER_LOGGER
from penstock.errors import InvalidRequest, KafkaError
from penstock.security.permissions import ALTER_CLUSTER_CONFIGS, CLUSTER_ACTION
from penstock.wire.messages.k44_incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from penstock.wire.structures import AlterConfigsResourceResponse

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(
    broker: "Broker", request: ClientRequest, message: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse | None:
    denials = {
        index: error
        for index, each in enumerate(message.resources)
        if (error := _denial(broker, request, each)) is not None
    }
    allowed = [each for index, each in enumerate(message.resources) if index not in denials]
    levels = [each for each in allowed if each.resource_type == BROKER_LOGGER]
    others = [each for each in allowed if each.resource_type != BROKER_LOGGER]
    changed = iter(_change_levels(broker, levels, validate_only=message.validate_only))

    def rejected(error: KafkaError) -> IncrementalAlterConfigsResponse:
        return IncrementalAlterConfigsResponse(responses=reject_each(others, error))

    def in_order(answer: IncrementalAlterConfigsResponse) -> IncrementalAlterConfigsResponse:
        decided = iter(answer.responses)
        answer.responses = [
            reject_each([each], denials[index])[0]
            if index in denials
            else next(changed if each.resource_type == BROKER_LOGGER else decided)
            for index, each in enumerate(message.resources)
        ]
        return answer

    if (levels or denials) and not others:
        return in_order(IncrementalAlterConfigsResponse())
    rest = IncrementalAlterConfigsRequest(resources=others, validate_only=message.validate_only)
    stores = store_changes(broker, others)
    if stores is None:
        broker.ask_controller(request, rest, rejected, in_order)
        return None

    def tried(problem: str | None) -> None:
        if problem is None:
            broker.ask_controller(request, rest, rejected, in_order)
        else:
            request.reply(in_order(rejected(InvalidRequest(problem))))

    broker.try_own_settings(stores, lambda problem: request.run(lambda: tried(problem)))
    return None


def store_changes(
    broker: "Broker", resources: list[AlterConfigsResource]
) -> dict[str, str | None] | None:
    """Return the changed settings of this broker, if its key stores or trust stores are among
    them."""
    for each in resources:
        if each.resource_type == BROKER and each.resource_name == str(broker.node_id):
            changes = {
                change.name: change.value if change.config_operation == SET else None
                for change in each.configs
                if change.config_operation in (SET, DELETE)
            }
            if any("ssl." in name for name in changes):
                return changes
    return None


def _denial(
    broker: "Broker", request: ClientRequest, wanted: AlterConfigsResource
) -> KafkaError | None:
    """Return the error of a caller without permission. At a controller, levels are for nodes."""
    if wanted.resource_type != BROKER_LOGGER:
        return denial(broker, request, wanted.resource_type, wanted.resource_name)
    on_controller = request.connection.listener.kind == CONTROLLER
    need = CLUSTER_ACTION if on_controller else ALTER_CLUSTER_CONFIGS
    return None if broker.access.allows_on_cluster(request, need) else need.error()


def _change_levels(
    broker: "Broker", resources: list[AlterConfigsResource], *, validate_only: bool
) -> list[AlterConfigsResourceResponse]:
    times = Counter(each.resource_name for each in resources)
    answers: list[AlterConfigsResourceResponse] = []
    for each in resources:
        try:
            if times[each.resource_name] > 1:
                raise InvalidRequest("Each resource must appear at most once.")
            _check_levels(broker, each)
        except KafkaError as error:
            answers += reject_each([each], error)
            continue
        if not validate_only:
            loggers.apply(each.configs)
        answers.append(
            AlterConfigsResourceResponse(
                error_message=None,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
        )
    return answers


def _check_levels(broker: "Broker", wanted: AlterConfigsResource) -> None:
    if wanted.resource_name != str(broker.node_id):
        raise InvalidRequest(
            f"this is broker {broker.node_id}; send the log levels of broker "
            f"{wanted.resource_name!r} to itself"
        )
    if len({change.name for change in wanted.configs}) != len(wanted.configs):
        raise InvalidRequest("Error due to duplicate config keys")
    loggers.check(wanted.configs)
