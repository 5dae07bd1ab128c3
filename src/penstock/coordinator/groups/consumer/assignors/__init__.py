"""Who is to have which partition: the assignors that a server offers to consumer groups."""

from typing import Final

from penstock.coordinator.groups.consumer.assignors import range as by_range
from penstock.coordinator.groups.consumer.assignors import uniform
from penstock.coordinator.groups.consumer.assignors.spec import Assignor

ASSIGNORS: Final[dict[str, Assignor]] = {
    "uniform": uniform.assign,
    "range": by_range.assign,
}
