"""kafka-reassign-partitions: moves replicas between brokers, and between directories of one."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.cli.kafka.framework.client_options import (
    BOOTSTRAP_CONTROLLER,
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    admin_of_either,
)
from penstock.cli.kafka.framework.options import GivenOptions, Option
from penstock.cli.kafka.framework.partition_json import listed_twice, read_object
from penstock.cli.kafka.framework.runner import (
    CommandRejected,
    UsageRejected,
    command,
    message_of,
    one_action,
    require,
    say_no_effect,
)
from penstock.cli.kafka.reassign.plan import (
    ReassignmentPlan,
    as_json,
    directories_of,
    parse_plan,
    print_move_states,
    print_states,
    proposed,
    where,
)
from penstock.cli.kafka.reassign.throttles import clear_throttles, throttle_moves, throttle_replicas
from penstock.client.admin.blocking import Admin
from penstock.client.admin.cluster_values import Reassignment, Replica
from penstock.errors import KafkaError, ReplicaNotAvailable
from penstock.model import TopicPartition

ACTIONS = ("generate", "execute", "verify", "cancel", "list")
RETRY_SECONDS = 0.1
NEEDS = {
    "verify": ("reassignment-json-file",),
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": ("reassignment-json-file",),
    "cancel": ("reassignment-json-file",),
    "list": (),
}
TAKES = {
    "verify": ("preserve-throttles",),
    "generate": ("disable-rack-aware",),
    "execute": (
        "additional",
        "throttle",
        "replica-alter-log-dirs-throttle",
        "timeout",
        "disallow-replication-factor-change",
    ),
    "cancel": ("preserve-throttles", "timeout"),
    "list": (),
}
ANYWHERE = ("bootstrap-server", "bootstrap-controller", "command-config", "help", "version")

OPTIONS = (
    Option("verify", "Print how far the moves of --reassignment-json-file are."),
    Option("generate", "Print a plan that spreads topics over brokers; moves nothing."),
    Option("execute", "Begin the moves of --reassignment-json-file."),
    Option("cancel", "Give up moves that are under way."),
    Option("list", "Print moves that are under way."),
    BOOTSTRAP_SERVER,
    BOOTSTRAP_CONTROLLER,
    COMMAND_CONFIG,
    Option(
        "reassignment-json-file",
        'A plan: {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": '
        '[1, 2], "log_dirs": ["any", "/data/2"]}]}.',
        "String: manual assignment json file path",
    ),
    Option(
        "topics-to-move-json-file",
        'Topics for --generate: {"version": 1, "topics": [{"topic": "orders"}]}.',
        "String: topics to reassign json file path",
    ),
    Option("broker-list", "Brokers for --generate: 0,1,2.", "String: brokerlist"),
    Option("disable-rack-aware", "Take no notice of racks."),
    Option("throttle", "At most so many bytes per second between brokers.", "Long", "-1"),
    Option(
        "replica-alter-log-dirs-throttle",
        "At most so many bytes per second between directories.",
        "Long",
        "-1",
    ),
    Option("timeout", "How long moves between directories may wait to begin.", "Long: ms", "10000"),
    Option("additional", "Although other moves are under way."),
    Option("preserve-throttles", "Leave throttles as they are."),
    Option("disallow-replication-factor-change", "Refuse plans with more or fewer replicas."),
)


def _failed(problem: Exception) -> None:
    if isinstance(problem, CommandRejected):
        print(str(problem))
    else:
        print(f"Error: {message_of(problem)}")


@command(
    "kafka-reassign-partitions",
    "Moves replicas between brokers, and between directories of one.",
    OPTIONS,
    failed=_failed,
)
def main(given: GivenOptions) -> None:
    action = one_action(given, *ACTIONS)
    require(given, *NEEDS[action])
    allowed = (*ANYWHERE, action, *NEEDS[action], *TAKES[action])
    for name in given.order:
        if name not in allowed:
            raise UsageRejected(f'Option "[{name}]" can\'t be used with action "[{action}]"')
    if given.has("bootstrap-controller") and action not in ("cancel", "list"):
        raise UsageRejected(
            f'Option "[bootstrap-controller]" can\'t be used with action "[{action}]"'
        )
    with admin_of_either(given) as admin:
        match action:
            case "list":
                _list(admin)
            case "generate":
                _generate(admin, given)
            case "execute":
                _execute(admin, given)
            case "verify":
                _verify(admin, given)
            case _:
                _cancel(admin, given)


def _plan(given: GivenOptions) -> ReassignmentPlan:
    return parse_plan(given.required("reassignment-json-file"))


def _list(admin: Admin) -> None:
    found = admin.reassignments.list_all()
    if not found:
        print("No partition reassignments found.")
        return
    print("Current partition reassignments:")
    for partition, move in sorted(found.items()):
        text = f"{partition}: replicas: {_ids(move.replicas)}."
        text += f" adding: {_ids(move.adding)}." if move.adding else ""
        text += f" removing: {_ids(move.removing)}." if move.removing else ""
        print(text)


def _ids(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))


# -- planning


def _topics(path: str) -> list[str]:
    match read_object(path).get("topics"):
        case [*listed] if listed:
            names = [each.get("topic") if isinstance(each, dict) else None for each in listed]
            topics = [each for each in names if isinstance(each, str)]
            if len(topics) == len(listed):
                return topics
    raise CommandRejected(f'{path}: must be {{"version": 1, "topics": [{{"topic": "..."}}]}}')


def _generate(admin: Admin, given: GivenOptions) -> None:
    path = given.required("topics-to-move-json-file")
    topics = _topics(path)
    brokers = _brokers(given.required("broker-list"))
    lists: dict[str, list[Any]] = {"Broker list": brokers, "List of topics to reassign": topics}
    for what, listed in lists.items():
        twice = sorted({each for each in listed if listed.count(each) > 1})
        if twice:
            raise CommandRejected(f"{what} contains duplicate entries: {_ids(twice)}")
    racks = {each.node_id: each.rack for each in admin.describe_cluster().brokers}
    known = {each: racks[each] for each in brokers if each in racks}
    if given.has("disable-rack-aware"):
        known = dict.fromkeys(known)
    if len({rack is None for rack in known.values()}) > 1:
        raise CommandRejected(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to "
            "make replica assignment without rack information."
        )
    current = _current(admin, topics)
    plan = proposed(current, known)
    here = as_json(current, directories_of(admin, current))
    print(f"Current partition replica assignment\n{here}\n")
    print(f"Proposed partition reassignment configuration\n{as_json(plan)}")


def _brokers(text: str) -> list[int]:
    try:
        return [int(each) for each in text.split(",")]
    except ValueError:
        raise CommandRejected(f"--broker-list {text}: must be ids of brokers") from None


def _current(
    admin: Admin, topics: Iterable[str], *, missing_ok: bool = False
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replicas of each partition of the topics."""
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for name, topic in admin.describe_topics(list(dict.fromkeys(topics))).items():
        if isinstance(topic, KafkaError):
            if missing_ok:
                continue
            raise CommandRejected(f"Error: Topic {name} not found.")
        for each in topic.partitions:
            found[TopicPartition(name, each.partition)] = each.replicas
    return found


# -- moving


def _execute(admin: Admin, given: GivenOptions) -> None:
    plan = _plan(given)
    _check_plan(admin, plan)
    ongoing = admin.reassignments.list_all()
    if ongoing and not given.has("additional"):
        raise CommandRejected(
            "Cannot execute because there is an existing partition assignment.  Use --additional "
            "to override this and create a new partition assignment in addition to the existing "
            "one. The --additional option can also be used to change the throttle by resubmitting "
            "the current reassignment."
        )
    everything = _current(admin, [each.topic for each in plan.replicas])
    missing = [str(each) for each in plan.replicas if each not in everything]
    if missing:
        raise CommandRejected(f"Error: Unable to find partition: {', '.join(missing)}")
    current = {each: everything[each] for each in plan.replicas}
    here = as_json(current, directories_of(admin, current))
    print(
        f"Current partition replica assignment\n\n{here}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback"
    )
    _throttle(admin, given, plan, current, ongoing)
    _begin(admin, given, plan)
    if plan.directories:
        _move_directories(admin, plan.directories, (given.long("timeout") or 0) / 1000)


def _check_plan(admin: Admin, plan: ReassignmentPlan) -> None:
    if not plan.replicas:
        raise CommandRejected("Error: Partition reassignment list cannot be empty")
    twice = listed_twice(plan.partitions)
    if twice:
        raise CommandRejected(
            f"Error: Partition reassignment contains duplicate topic partitions: "
            f"{', '.join(map(str, twice))}"
        )
    known = {each.node_id for each in admin.describe_cluster().brokers}
    for partition, replicas in plan.replicas.items():
        if not replicas:
            raise CommandRejected("Error: Partition replica list cannot be empty")
        repeated = sorted({each for each in replicas if replicas.count(each) > 1})
        if repeated:
            raise CommandRejected(
                "Error: Partition replica lists may not contain duplicate entries: "
                f"{partition} contains multiple entries for {_ids(repeated)}"
            )
        for broker in replicas:
            if broker not in known:
                raise CommandRejected(f"Error: Unknown broker id {broker}")


def _throttle(
    admin: Admin,
    given: GivenOptions,
    plan: ReassignmentPlan,
    current: Mapping[TopicPartition, Sequence[int]],
    ongoing: Mapping[TopicPartition, Reassignment],
) -> None:
    between, inside = given.long("throttle"), given.long("replica-alter-log-dirs-throttle")
    assert between is not None and inside is not None, "they have defaults"
    if between < 0 and inside < 0:
        return
    print(
        "Warning: You must run --verify periodically, until the reassignment completes, to ensure "
        "the throttle is removed."
    )
    if between >= 0:
        if len(admin.describe_cluster().brokers) == 1:
            say_no_effect(given, throttle="there is one broker, and nothing moves between brokers")
        throttle_replicas(admin, plan.replicas, current, ongoing, between)
    if inside >= 0:
        throttle_moves(admin, sorted({each.broker for each in plan.directories}), inside)


def _begin(admin: Admin, given: GivenOptions, plan: ReassignmentPlan) -> None:
    """Start the reassignments; the controller skips replicas that are in place."""
    results = admin.reassignments.alter(
        {each: list(replicas) for each, replicas in plan.replicas.items()},
        allow_replication_factor_change=not given.has("disallow-replication-factor-change"),
    )
    failed = {each: error for each, error in results.items() if error is not None}
    if failed:
        listed = "\n".join(f"{each}: {error.message}" for each, error in sorted(failed.items()))
        raise CommandRejected(f"Error reassigning partition(s):\n{listed}")
    plural = "" if len(plan.replicas) == 1 else "s"
    listed = ",".join(map(str, sorted(plan.replicas)))
    print(f"Successfully started partition reassignment{plural} for {listed}")


def _move_directories(
    admin: Admin, directories: Mapping[Replica, str], timeout_seconds: float
) -> None:
    """Move replicas between directories; retry until a replica exists on its broker."""
    pending = dict(directories)
    deadline = time.monotonic() + timeout_seconds
    while True:
        for replica, error in admin.log_dirs.alter(pending).items():
            if error is None:
                path = pending.pop(replica)
                print(
                    f"Successfully started moving log directory to {path} for replica "
                    f"{replica.topic}-{replica.partition} with broker {replica.broker} "
                )
            elif not isinstance(error, ReplicaNotAvailable):
                raise CommandRejected(f"Error: Failed to alter dir for {replica}: {error.message}")
        if not pending:
            return
        if time.monotonic() >= deadline:
            plural = "" if len(pending) == 1 else "s"
            raise CommandRejected(
                f"Timed out before log directory move{plural} could be started for: "
                + ",".join(map(str, sorted(pending)))
            )
        time.sleep(RETRY_SECONDS)


# -- following


def _verify(admin: Admin, given: GivenOptions) -> None:
    plan = _plan(given)
    ongoing = admin.reassignments.list_all()
    current = _current(admin, (each.topic for each in plan.replicas), missing_ok=True)
    print_states(plan, current, ongoing)
    moving = print_move_states(admin, plan.directories)
    if not ongoing and not moving and not given.has("preserve-throttles"):
        clear_throttles(admin, plan.replicas)


def _cancel(admin: Admin, given: GivenOptions) -> None:
    plan = _plan(given)
    ongoing = admin.reassignments.list_all(list(plan.replicas))
    if ongoing:
        results = admin.reassignments.alter(dict.fromkeys(ongoing))
        failed = {each: error for each, error in results.items() if error is not None}
        if failed:
            listed = "\n".join(f"{each}: {error.message}" for each, error in sorted(failed.items()))
            plural = "" if len(failed) == 1 else "s"
            raise CommandRejected(f"Error cancelling partition reassignment{plural} for:\n{listed}")
        plural = "" if len(ongoing) == 1 else "s"
        listed = ",".join(map(str, sorted(ongoing)))
        print(f"Successfully cancelled partition reassignment{plural} for: {listed}")
    else:
        print("None of the specified partition reassignments are active.")
    back = _current_directories(admin, plan)
    if back:
        _move_directories(admin, back, (given.long("timeout") or 0) / 1000)
    else:
        print("None of the specified partition moves are active.")
    if not given.has("preserve-throttles"):
        clear_throttles(admin, plan.replicas)


def _current_directories(admin: Admin, plan: ReassignmentPlan) -> dict[Replica, str]:
    """Return the current directories of replicas that move to another one."""
    brokers = sorted({each.broker for each in plan.directories})
    found = admin.log_dirs.describe(brokers, list(plan.replicas)) if brokers else {}
    homes: dict[Replica, str] = {}
    for replica in plan.directories:
        directories = found.get(replica.broker, {})
        if not isinstance(directories, KafkaError):
            here, coming = where(directories, replica)
            if here is not None and coming is not None:
                homes[replica] = here
    return homes
