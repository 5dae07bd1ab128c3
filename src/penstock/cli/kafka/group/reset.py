"""kafka-consumer-groups --reset-offsets: plans, prints and, with --execute, commits offsets."""

from collections.abc import Mapping, Sequence

from penstock.cli.arguments.times import parse_duration, parse_time, wall_ms
from penstock.cli.connection.results import raise_first, value_of
from penstock.cli.group.reset_plan import (
    Aim,
    OffsetMove,
    PlannedOffsets,
    ResetRejected,
    ResetTo,
    ShiftBy,
    ToListed,
    ToOffset,
    ToTime,
    from_csv,
    known_offsets,
    plan_moves,
)
from penstock.cli.kafka.framework.client_options import read_file
from penstock.cli.kafka.framework.options import GivenOptions
from penstock.cli.kafka.framework.runner import CommandRejected, UsageRejected, say
from penstock.cli.kafka.group.tables import WIDTH_MIN, print_error
from penstock.client.admin.blocking import Admin
from penstock.client.values import FoundOffset
from penstock.errors import GroupIdNotFound
from penstock.model import TopicPartition

AIMS = (
    "to-offset",
    "to-datetime",
    "by-duration",
    "to-earliest",
    "to-latest",
    "to-current",
    "shift-by",
    "from-file",
)


def reset(admin: Admin, given: GivenOptions, groups: Sequence[str]) -> None:
    """Reset each group without members; print an error for the others."""
    aim = None if given.has("from-file") else _aim(given)
    moves: dict[str, list[OffsetMove]] = {}
    for group in groups:
        state = _state(admin, group)
        if state not in ("Empty", "Dead"):
            print_error(
                f"Assignments can only be reset if the group '{group}' is inactive, but the "
                f"current state is {state}."
            )
            moves[group] = []
            continue
        moves[group] = _planned(admin, given, group, aim or _listed(given, group))
        if given.has("execute"):
            _commit(admin, group, moves[group])
    if given.has("export"):
        _print_lines(moves, with_group=len(given.texts("group")) != 1)
    else:
        _print_table(moves)


# -- arguments


def _aim(given: GivenOptions) -> Aim:
    """Return the aim of the options, other than --from-file."""
    if (offset := given.long("to-offset")) is not None:
        return ToOffset(offset)
    if given.has("to-earliest"):
        return ResetTo.EARLIEST
    if given.has("to-latest"):
        return ResetTo.LATEST
    if given.has("to-current"):
        return ResetTo.CURRENT
    if (count := given.long("shift-by")) is not None:
        return ShiftBy(count)
    if (text := given.text("to-datetime")) is not None:
        return ToTime(_time(text))
    if (text := given.text("by-duration")) is not None:
        return ToTime(max(0, wall_ms() - _duration_ms(text)))
    listed = ", ".join(f"[{name}]" for name in AIMS)
    raise UsageRejected(
        f"Option '[reset-offsets]' requires one of the following scenarios: {listed}"
    )


def _listed(given: GivenOptions, group: str) -> ToListed:
    path = given.required("from-file")
    try:
        return ToListed(from_csv(read_file(path), group))
    except ResetRejected as problem:
        raise CommandRejected(f"{path}: {problem}") from None


def _time(text: str) -> int:
    try:
        return parse_time(text)
    except ValueError:
        raise CommandRejected(
            f"--to-datetime {text}: must be a time such as 2026-01-31T12:00:00.000"
        ) from None


def _duration_ms(text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError:
        raise CommandRejected(
            f"--by-duration {text}: must be a duration such as P1DT2H30M"
        ) from None


def partition_numbers(said: str, numbers: str) -> list[int]:
    """Return the numbers behind the colon of `orders:0,2`."""
    try:
        return [int(each) for each in numbers.split(",")]
    except ValueError:
        raise UsageRejected(
            f"Invalid topic arg '{said}', expected topic name and partitions"
        ) from None


# -- offsets


def _state(admin: Admin, group: str) -> str:
    found = admin.groups.describe([group])[group]
    if isinstance(found, GroupIdNotFound):
        return "Dead"  # offsets may be set before the group exists
    return value_of(found).state


def _planned(admin: Admin, given: GivenOptions, group: str, aim: Aim) -> list[OffsetMove]:
    committed = {each: known.offset for each, known in admin.groups.offsets(group).items()}
    if isinstance(aim, ToListed):
        partitions = list(aim.offsets)
    elif given.has("all-topics"):
        partitions = list(committed)
    elif given.has("topic"):
        partitions = [each for topic in given.texts("topic") for each in _named(admin, topic)]
    else:
        raise UsageRejected("One of the reset scopes should be defined: --all-topics, --topic.")
    try:
        known = known_offsets(
            aim, partitions, committed, lambda place: _offsets(admin, partitions, place)
        )
        if isinstance(aim, ToTime):
            _warn_of_empty(known)
        moves = plan_moves(aim, known)
    except ResetRejected as problem:
        raise UsageRejected(str(problem)) from None
    for move in moves:
        if move.note is not None:
            say(f"note: {move.partition}: {move.note}")
    return moves


def _named(admin: Admin, said: str) -> list[TopicPartition]:
    name, colon, numbers = said.partition(":")
    topic = value_of(admin.describe_topics([name])[name])
    known = [each.partition for each in topic.partitions]
    wanted = partition_numbers(said, numbers) if colon else known
    missing = [f"{name}-{number}" for number in wanted if number not in known]
    if missing:
        raise CommandRejected(f'The partitions "{", ".join(missing)}" do not exist')
    return [TopicPartition(name, number) for number in wanted]


def _warn_of_empty(known: Mapping[TopicPartition, PlannedOffsets]) -> None:
    for each, offsets in known.items():
        if offsets.at_time is None:
            print(
                f"\nWarn: Partition {each.partition} from topic {each.topic} is empty. "
                "Falling back to latest known offset."
            )


def _offsets(
    admin: Admin, partitions: Sequence[TopicPartition], place: int
) -> dict[TopicPartition, int]:
    found = admin.offsets(dict.fromkeys(partitions, place))
    offsets: dict[TopicPartition, int] = {}
    for each, known in found.items():
        if not isinstance(known, FoundOffset):
            raise known
        offsets[each] = known.offset
    return offsets


def _commit(admin: Admin, group: str, moves: Sequence[OffsetMove]) -> None:
    raise_first(admin.groups.commit(group, {move.partition: move.offset for move in moves}))


# -- output


def _print_lines(moves: Mapping[str, Sequence[OffsetMove]], *, with_group: bool) -> None:
    for group, some in moves.items():
        for move in some:
            cells = [group] if with_group else []
            cells += [move.partition.topic, str(move.partition.partition), str(move.offset)]
            print(",".join(f'"{cell}"' if "," in cell else cell for cell in cells))
    print()


def _print_table(moves: Mapping[str, Sequence[OffsetMove]]) -> None:
    rows = [("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")]
    rows += [
        (group, move.partition.topic, str(move.partition.partition), str(move.offset))
        for group, some in moves.items()
        for move in some
    ]
    widths = [max(WIDTH_MIN, *(len(row[at]) for row in rows)) for at in (0, 1)]
    for group, topic, partition, offset in rows if moves else ():
        cells = f"{group:<{widths[0]}} {topic:<{widths[1]}} {partition:<10} {offset}"
        print(f"\n{cells}", end="")
    print()
