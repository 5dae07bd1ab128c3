"""The assignors of consumer groups: each gives every partition to one member."""

from typing import Final

from penstock.coordinator.groups.consumer.assignors import range as by_range
from penstock.coordinator.groups.consumer.assignors import uniform
from penstock.coordinator.groups.consumer.assignors.spec import Assignor

ASSIGNORS: Final[dict[str, Assignor]] = {
    "uniform": uniform.assign,
    "range": by_range.assign,
}
