"""`penstock cluster describe|health|features|elect-leaders`"""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments.partitions import TopicsOption, chosen_partitions, parse_topics
from penstock.cli.arguments.shared_options import on_cluster
from penstock.cli.connection.access import access_of, connect
from penstock.cli.connection.known_cluster import NO_CONTROLLER, describe_nodes
from penstock.cli.connection.partition_health import (
    PartitionHealth,
    ask_health,
    partition_health,
)
from penstock.cli.terminal.output import (
    ExitCode,
    Format,
    Row,
    counted,
    format_of,
    note,
    print_rows,
    print_value,
    report,
)
from penstock.errors import ElectionNotNeeded, KafkaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.client.values import Broker, PartitionDescription

app = typer.Typer(help="The cluster as a whole.", no_args_is_help=True)

LISTED_MAX = 20
HEALTH_LISTS = {
    "without_leader": "without a leader",
    "under_min_isr": "under min.insync.replicas, where acks=all is rejected",
    "at_min_isr": "at min.insync.replicas, where one more loss stops acks=all",
    "under_replicated": "with replicas out of sync",
}
BROKER_COLUMNS = ("broker", "host", "port", "rack", "fenced", "controller", "leads", "replicas")


@app.command()
@on_cluster
def describe(context: typer.Context) -> None:
    """Describe the cluster: its id, its brokers, and whether its partitions are well."""
    with connect(access_of(context)) as admin:
        cluster = describe_nodes(admin)
        topics = admin.list_topics()
    partitions = [each for topic in topics for each in topic.partitions]
    health = health_row(partition_health(topics, {}), ("without_leader", "under_replicated"))
    brokers = [broker_row(each, cluster.controller_id, partitions) for each in cluster.brokers]
    form = format_of(context)
    if form is not Format.TABLE:
        shown: Row = {
            "cluster_id": cluster.cluster_id,
            "controller": _known(cluster.controller_id),
            "topics": len(topics),
            "partitions": len(partitions),
            **health,
            "brokers": [*brokers],
        }
        print_value(form, shown)
        return
    print(
        f"cluster {cluster.cluster_id}, {counted(len(cluster.brokers), 'broker')}, "
        f"{counted(len(topics), 'topic')}, {counted(len(partitions), 'partition')}"
    )
    if _known(cluster.controller_id) is None:
        print("no active controller is known: most of the controllers must run")
    else:
        print(f"node {cluster.controller_id} is the active controller")
    for name, places in health.items():
        if isinstance(places, list) and places:
            print(f"{name.replace('_', ' ')}: {', '.join(map(str, places))}")
    if not any(health.values()):
        print("all partitions have a leader, and all replicas are in sync")
    print_rows(Format.TABLE, BROKER_COLUMNS, brokers)


def _known(controller_id: int) -> int | None:
    return None if controller_id == NO_CONTROLLER else controller_id


def health_row(health: PartitionHealth, lists: "Sequence[str]" = PartitionHealth._fields) -> Row:
    """Return the names of partitions in each list."""
    found = health._asdict()
    return {name: [str(each) for each in found[name]] for name in lists}


def broker_row(
    broker: "Broker", controller_id: int, partitions: "Sequence[PartitionDescription]"
) -> Row:
    return {
        "broker": broker.node_id,
        "host": broker.host,
        "port": broker.port,
        "rack": broker.rack,
        "fenced": broker.fenced,
        "controller": None if _known(controller_id) is None else broker.node_id == controller_id,
        "leads": sum(each.leader == broker.node_id for each in partitions),
        "replicas": sum(broker.node_id in each.replicas for each in partitions),
    }


@app.command()
@on_cluster
def health(context: typer.Context) -> None:
    """Exit with 0 if the cluster is whole: an active controller, no fenced broker, every partition
    with a leader and all replicas in sync. Otherwise print the exceptions, and exit with 1."""
    with connect(access_of(context)) as admin:
        topics = admin.list_topics()
        partitions = ask_health(admin, topics)
        cluster = describe_nodes(admin)  # comes last, and lists what the sets have lost as fenced
    fenced = [broker.node_id for broker in cluster.brokers if broker.fenced]
    has_controller = _known(cluster.controller_id) is not None
    is_whole = has_controller and not fenced and not any(partitions)
    form = format_of(context)
    if form is not Format.TABLE:
        shown: Row = {"whole": is_whole, "controller": _known(cluster.controller_id)}
        print_value(form, {**shown, "fenced_brokers": [*fenced], **health_row(partitions)})
    elif is_whole:
        count = sum(len(topic.partitions) for topic in topics)
        print(
            f"cluster {cluster.cluster_id} is whole: {counted(len(cluster.brokers), 'broker')}, "
            f"{counted(count, 'partition')}, all replicas in sync"
        )
    else:
        print(f"cluster {cluster.cluster_id} is not whole")
        if not has_controller:
            print("  no active controller: most of the controllers must run")
        if fenced:
            print(f"  fenced brokers: {_listed(fenced)}")
        for name, about in HEALTH_LISTS.items():
            if found := getattr(partitions, name):
                print(f"  {about}: {_listed(found)}")
    if not is_whole:
        raise typer.Exit(ExitCode.REJECTED)


def _listed(items: "Sequence[object]") -> str:
    more = f" and {len(items) - LISTED_MAX} more" if len(items) > LISTED_MAX else ""
    return ", ".join(map(str, items[:LISTED_MAX])) + more


@app.command()
@on_cluster
def features(context: typer.Context) -> None:
    """Show which features are in force, and what the brokers could do."""
    with connect(access_of(context)) as admin:
        levels = admin.features.describe()
    rows: list[Row] = []
    for name in sorted({*levels.supported, *levels.finalized}):
        supported, finalized = levels.supported.get(name), levels.finalized.get(name)
        rows.append(
            {
                "feature": name,
                "level": None if finalized is None else finalized.highest,
                "lowest": None if supported is None else supported.lowest,
                "highest": None if supported is None else supported.highest,
            }
        )
    print_rows(format_of(context), ("feature", "level", "lowest", "highest"), rows)


@app.command("elect-leaders")
@on_cluster
def elect_leaders(
    context: typer.Context,
    *,
    topics: TopicsOption = [],  # noqa: B006 - typer only reads the default
    unclean: Annotated[
        bool,
        typer.Option("--unclean", help="Let a replica lead that may have lost records."),
    ] = False,
) -> None:
    """Let the first replica of each partition lead again, where it can."""
    from penstock.client.admin.cluster_values import Election

    choice = parse_topics(topics)
    with connect(access_of(context)) as admin:
        chosen = chosen_partitions(admin, choice)
        election = Election.UNCLEAN if unclean else Election.PREFERRED
        results = admin.elect_leaders(chosen or None, election)
    needless = [each for each, error in results.items() if isinstance(error, ElectionNotNeeded)]
    failed: dict[str, KafkaError] = {
        str(each): error
        for each, error in results.items()
        if error is not None and each not in needless
    }
    done = [str(each) for each, error in results.items() if error is None]
    if needless or not results:
        note(
            "the others are led by the replica that they should be led by"
            if done
            else "all are led by the replica that they should be led by"
        )
    report(format_of(context), done, failed, "elected")
