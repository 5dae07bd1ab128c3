"""`reset`: sends an application back to its start, after it has shown the steps.

Deleted are state and checkpoints, the offsets of the groups, and the internal topics. Results in
other topics stay, and so do the dead letters: a second run writes its results again.
"""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from penstock.client.admin.blocking import Admin
from penstock.errors import GroupIdNotFound, KafkaError, UnknownTopicOrPartition
from penstock.streams import registry
from penstock.streams.errors import StreamsError
from penstock.streams.settings import OF

# An internal topic has the step's name after the application's name. The application's name alone
# would match another application that starts with it.
_INTERNAL = re.compile(
    r"-(filter|map-values|select-key|branch|merge|repartition|map|flat-map|flat-map-values|peek"
    r"|process|join|deduplicate|transform|reduce|aggregate)-[0-9]+-(changelog|repartition)"
)


@dataclass(frozen=True, slots=True)
class Item:
    """One object that a reset deletes."""

    kind: str  # checkpoint, group, topic, sink
    name: str
    detail: str


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """The steps of a reset; `apply` runs them."""

    known: registry.KnownApplication
    directory: Path
    items: tuple[Item, ...]

    def of(self, kind: str) -> list[str]:
        return [each.name for each in self.items if each.kind == kind]


def plan_reset(known: registry.KnownApplication, directory: Path, admin: Admin) -> ResetPlan:
    """Return the plan; nothing is changed."""
    if registry.is_running(directory):
        raise StreamsError(f"{known.application_id} is running: stop it first")
    items: list[Item] = []
    queries = directory / registry.QUERIES
    for path in sorted(queries.iterdir()) if queries.is_dir() else []:
        last = registry.last_batch(directory, path.name)
        done = "no batch committed" if last is None else f"batches 0 to {last}"
        items.append(Item("checkpoint", path.name, f"{done}, {_bytes_in(path)} bytes"))
    for group in _groups(known, admin):
        offsets = admin.groups.offsets(group)
        items.append(Item("group", group, f"offsets of {len(offsets)} partitions"))
    items += [Item("topic", name, "internal") for name in _internal_topics(known, admin)]
    # The sink stops at a new checkpoint under a known name, unless it was permitted. If no
    # checkpoint is left, this permission may be the whole plan.
    there = {each.name for each in items if each.kind == "checkpoint"}
    items += [
        Item("sink", name, f"may begin with a new checkpoint in {directory}")
        for name in known.queries or [registry.ANY]
        if name not in there
    ]
    return ResetPlan(known, directory, tuple(items))


def apply(plan: ResetPlan, admin: Admin) -> tuple[list[str], dict[str, KafkaError]]:
    """Run the plan. Return its done and its failed steps. Checkpoints go last, so that it can be
    repeated."""
    lock = registry.Lock(plan.directory)
    try:
        done: list[str] = []
        failed: dict[str, KafkaError] = {}
        answers: dict[str, KafkaError | None] = {}
        if plan.of("group"):
            answers |= admin.groups.delete(plan.of("group"))
        if plan.of("topic"):
            answers |= admin.delete_topics(plan.of("topic"))
        said = {
            each.name: f"{each.kind} {each.name}"
            for each in plan.items
            if each.kind in ("group", "topic")
        }
        for name, error in answers.items():
            if error is None or isinstance(error, GroupIdNotFound | UnknownTopicOrPartition):
                done.append(said[name])
            else:
                failed[said[name]] = error
        if failed:
            return done, failed
        checkpoints = plan.of("checkpoint")
        registry.allow(plan.directory, sorted({*checkpoints, *plan.of("sink")}))
        for name in checkpoints:
            shutil.rmtree(plan.directory / registry.QUERIES / name)
            done.append(f"checkpoint {name}")
        return done, failed
    finally:
        lock.release()


def _groups(known: registry.KnownApplication, admin: Admin) -> list[str]:
    """Return the existing groups of the application."""
    there = [each.group_id for each in admin.groups.list_all()]
    mine = f"{known.application_id}{OF}"
    return [
        group
        for group in there
        if group in known.groups or group == known.application_id or group.startswith(mine)
    ]


def _internal_topics(known: registry.KnownApplication, admin: Admin) -> list[str]:
    """Return its internal topics, those of earlier versions included."""
    there = [each.name for each in admin.list_topics()]
    return [
        name
        for name in there
        if name in known.internal_topics or is_internal(name, known.application_id)
    ]


def is_internal(topic: str, application_id: str) -> bool:
    if not topic.startswith(application_id):
        return False
    return _INTERNAL.fullmatch(topic, len(application_id)) is not None


def _bytes_in(directory: Path) -> int:
    return sum(each.stat().st_size for each in directory.rglob("*") if each.is_file())
