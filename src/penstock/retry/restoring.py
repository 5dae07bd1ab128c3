"""What is known of a source partition before its first record is handled: read back, committed."""

from collections.abc import Iterable, Mapping
from contextlib import aclosing

from penstock.client.admin.aio import Admin
from penstock.client.settings import SettingValue
from penstock.model import TopicPartition
from penstock.retry.course import Counts, Course, Steps
from penstock.retry.pending import Pending
from penstock.retry.route import Route
from penstock.retry.seen import Seen
from penstock.retry.whole_partitions import read_whole


def new_course(
    route: Route, steps: Steps, partition: int, counts: Counts, shared: Seen | None
) -> Course:
    """Without what was written of it; `shared` is what this process remembers by itself."""
    seen = None
    if route.guard is not None:
        seen = Seen(route.guard.window_ms) if shared is None else shared
    written = route.seen_window_ms is not None
    return Course(steps, partition, route.ordered, Pending(), seen, written, counts)


async def restore(
    courses: Iterable[Course],
    admin: Admin,
    settings: Mapping[str, SettingValue],
    namespace: str | None,
    now_ms: int,
) -> None:
    """Pending keys and seen events of all these, as far as they are written."""
    states: dict[TopicPartition, Course] = {}
    for course in courses:
        if course.ordered:
            states[TopicPartition(course.names.pending, course.partition)] = course
        if course.seen_is_written:
            states[TopicPartition(course.names.seen, course.partition)] = course
    if not states:
        return
    reading = read_whole(admin, settings, list(states), namespace=namespace)
    async with aclosing(reading):
        async for record in reading:
            course = states[record.place]
            if record.topic == course.names.pending:
                course.pending.restore([(record.key, record.value)])
            elif course.seen is not None and record.key is not None and record.value:
                course.seen.add(record.key, int(record.value), now_ms)
