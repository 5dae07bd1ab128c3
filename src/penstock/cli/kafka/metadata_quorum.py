"""kafka-metadata-quorum: prints voters and observers of the metadata quorum, and changes voters."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from penstock.cli.arguments.times import wall_ms
from penstock.cli.kafka.framework.client_options import (
    CONTROLLER_HELP,
    load_server,
    open_admin,
    read_properties,
    reject_controllers,
)
from penstock.cli.kafka.framework.runner import CommandRejected, print_message
from penstock.cli.kafka.framework.subcommands import VerbParser, print_table, run_verbs
from penstock.client.admin.blocking import Admin
from penstock.client.admin.cluster_values import QuorumDescription, QuorumListener, QuorumReplica
from penstock.config.properties import PropertiesError, parse_properties
from penstock.model import ZERO_ID, id_from_text, id_to_text

META_PROPERTIES = "meta.properties"
# Client keys in the file of a controller.
CLIENT_KEYS = ("security.", "sasl.", "ssl.", "client.", "request.", "default.api.", "retry.")


def main(arguments: Sequence[str] | None = None) -> int:
    return run_verbs(_parser(), _run, print_message, arguments)


def _parser() -> VerbParser:
    parser = VerbParser(prog="kafka-metadata-quorum", description="The quorum of the metadata.")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--bootstrap-server", help="a server of the cluster, or several")
    where.add_argument("--bootstrap-controller", help=CONTROLLER_HELP)
    parser.add_argument(
        "--command-config",
        help="a properties file for the client; of the controller itself for add-controller",
    )
    verbs = parser.add_subparsers(dest="command", required=True, parser_class=VerbParser)
    describe = verbs.add_parser("describe", help="print the state of the quorum")
    describe.add_argument("--status", action="store_true", help="in a few lines")
    describe.add_argument("--replication", action="store_true", help="a line per node")
    describe.add_argument("--human-readable", action="store_true", help="times as ages")
    add = verbs.add_parser("add-controller", help="let a controller vote")
    add.add_argument("--dry-run", action="store_true", help="only say what would be done")
    remove = verbs.add_parser("remove-controller", help="let a controller vote no more")
    remove.add_argument("--controller-id", "-i", type=int, required=True, help="its node.id")
    remove.add_argument(
        "--controller-directory-id", "-d", required=True, help="the id of its directory"
    )
    remove.add_argument("--dry-run", action="store_true", help="only say what would be done")
    return parser


def _run(parsed: argparse.Namespace) -> None:
    reject_controllers(parsed.bootstrap_controller)
    properties = read_properties(parsed.command_config)
    if parsed.command == "add-controller":
        properties = {k: v for k, v in properties.items() if k.startswith(CLIENT_KEYS)}
    with open_admin(parsed.bootstrap_server, properties) as admin:
        match parsed.command:
            case "describe":
                _describe(admin, parsed)
            case "add-controller":
                _add(admin, parsed)
            case _:
                _remove(admin, parsed)


# -- describing


def _describe(admin: Admin, parsed: argparse.Namespace) -> None:
    if parsed.status and parsed.replication:
        raise CommandRejected(
            "Only one of --status or --replication should be specified with describe sub-command"
        )
    if parsed.replication:
        _print_replication(admin.quorum.describe(), ages=parsed.human_readable)
    elif not parsed.status:
        raise CommandRejected(
            "One of --status or --replication must be specified with describe sub-command"
        )
    elif parsed.human_readable:
        raise CommandRejected(
            "The option --human-readable is only supported along with --replication"
        )
    else:
        _print_status(admin.describe_cluster().cluster_id, admin.quorum.describe())


def _leader(quorum: QuorumDescription) -> QuorumReplica:
    for voter in quorum.voters:
        if voter.node_id == quorum.leader_id:
            return voter
    raise CommandRejected(f"the leader, node {quorum.leader_id}, is none of the voters")


def _print_replication(quorum: QuorumDescription, *, ages: bool) -> None:
    leader = _leader(quorum)
    now_ms = wall_ms()
    answered = [(leader, "Leader")]
    answered += [(each, "Follower") for each in quorum.voters if each is not leader]
    answered += [(each, "Observer") for each in quorum.observers]

    def when(timestamp: int | None) -> str:
        if timestamp is None:
            return "-1"
        return f"{max(0, now_ms - timestamp)} ms ago" if ages else str(timestamp)

    print_table(
        {
            "NodeId": lambda each: each[0].node_id,
            "DirectoryId": lambda each: id_to_text(each[0].directory_id or ZERO_ID),
            "LogEndOffset": lambda each: each[0].log_end_offset,
            "Lag": lambda each: leader.log_end_offset - each[0].log_end_offset,
            "LastFetchTimestamp": lambda each: when(each[0].last_fetch_ms),
            "LastCaughtUpTimestamp": lambda each: when(each[0].last_caught_up_ms),
            "Status": lambda each: each[1],
        },
        answered,
    )


def _print_status(cluster_id: str, quorum: QuorumDescription) -> None:
    leader = _leader(quorum)
    last = min(quorum.voters, key=lambda each: each.log_end_offset)
    behind_ms = -1
    if last is leader or last.log_end_offset == leader.log_end_offset:
        behind_ms = 0
    elif leader.last_caught_up_ms is not None and last.last_caught_up_ms is not None:
        behind_ms = leader.last_caught_up_ms - last.last_caught_up_ms
    for name, value in (
        ("ClusterId", cluster_id),
        ("LeaderId", quorum.leader_id),
        ("LeaderEpoch", quorum.leader_epoch),
        ("HighWatermark", quorum.high_watermark),
        ("MaxFollowerLag", leader.log_end_offset - last.log_end_offset),
        ("MaxFollowerLagTimeMs", behind_ms),
        ("CurrentVoters", _nodes(quorum, quorum.voters)),
        ("CurrentObservers", _nodes(quorum, quorum.observers)),
    ):
        print(f"{name + ':':<24}{value}")


def _nodes(quorum: QuorumDescription, replicas: Sequence[QuorumReplica]) -> str:
    shown = []
    for each in replicas:
        directory = "null"
        if each.directory_id is not None and each.directory_id != ZERO_ID:
            directory = f'"{id_to_text(each.directory_id)}"'
        text = f'"id": {each.node_id}, "directoryId": {directory}'
        places = quorum.nodes.get(each.node_id, ())
        if places:
            listed = ", ".join(f'"{place.name}://{place.host}:{place.port}"' for place in places)
            text += f', "endpoints": [{listed}]'
        shown.append(f"{{{text}}}")
    return f"[{', '.join(shown)}]"


# -- changing


def _add(admin: Admin, parsed: argparse.Namespace) -> None:
    if parsed.command_config is None:
        raise CommandRejected(
            "You must supply the configuration file of the controller you are adding when using "
            "add-controller."
        )
    config = load_server(parsed.command_config).config
    if not config.is_controller:
        raise CommandRejected(
            "process.roles did not contain 'controller' in configuration file. Is this a valid "
            "controller configuration file?"
        )
    directory_id = _directory_id(config.metadata_log_dir)
    names = config.controller_listener_names
    listeners = [
        QuorumListener(each.name, each.host or "localhost", each.port)
        for each in config.advertised_listeners
        if each.name in names
    ]
    if not parsed.dry_run:
        admin.quorum.add_voter(config.node_id, directory_id, listeners)
    places = ", ".join(f"{each.name}://{each.host}:{each.port}" for each in listeners)
    print(
        f"{'DRY RUN of adding' if parsed.dry_run else 'Added'} controller {config.node_id} with "
        f"directory id {id_to_text(directory_id)} and endpoints: {places}"
    )


def _directory_id(directory: str) -> bytes:
    try:
        text = (Path(directory) / META_PROPERTIES).read_text()
        answered = {entry.key: entry.value for entry in parse_properties(text)}
        return id_from_text(answered["directory.id"])
    except (OSError, PropertiesError, ValueError):
        raise CommandRejected(f"Unable to read meta.properties from {directory}") from None
    except KeyError:
        raise CommandRejected(f"No directory id found in {directory}") from None


def _remove(admin: Admin, parsed: argparse.Namespace) -> None:
    if parsed.controller_id < 0:
        raise CommandRejected(f"Invalid negative --controller-id: {parsed.controller_id}")
    try:
        directory_id = id_from_text(parsed.controller_directory_id)
    except ValueError as problem:
        raise CommandRejected(f"Failed to parse --controller-directory-id: {problem}") from None
    if not parsed.dry_run:
        admin.quorum.remove_voter(parsed.controller_id, directory_id)
    print(
        f"{'DRY RUN of removing ' if parsed.dry_run else 'Removed '} KRaft controller "
        f"{parsed.controller_id} with directory id {id_to_text(directory_id)}"
    )
