"""A refusal of AlterConfigs or IncrementalAlterConfigs as a whole: every resource is told of it."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from penstock.errors import KafkaError
from penstock.wire.messages import k33_alter_configs as k33
from penstock.wire.messages import k44_incremental_alter_configs as k44

R = TypeVar("R")


def refuse_each(
    make_response: Callable[..., R],
    resources: Sequence[k33.AlterConfigsResource | k44.AlterConfigsResource],
    error: KafkaError,
) -> list[R]:
    return [
        make_response(
            error_code=error.code,
            error_message=error.message,
            resource_type=each.resource_type,
            resource_name=each.resource_name,
        )
        for each in resources
    ]
