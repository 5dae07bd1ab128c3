"""kafka-storage: creates cluster ids, and formats and describes data directories."""

import argparse
import uuid
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.kafka.framework.client_options import load_server
from penstock.cli.kafka.framework.runner import FAILED, OK, CommandRejected, say
from penstock.cli.kafka.framework.subcommands import VerbParser, run_verbs
from penstock.config.properties import PropertiesError, parse_properties
from penstock.model import id_to_text

if TYPE_CHECKING:
    from penstock.config import BrokerConfig

META_PROPERTIES = "meta.properties"
RELEASE = "4.3-IV0"
METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
# Features of a new cluster: those of Apache Kafka 4.3 that Penstock serves.
LEVELS = {
    METADATA_VERSION: 30,
    KRAFT_VERSION: 1,
    "transaction.version": 2,
    "group.version": 1,
    "eligible.leader.replicas.version": 1,
}
# Level 0 of a feature that is not served yet may be asked for: a mixed cluster needs it.
SUPPORTED_LEVELS = {**LEVELS, "share.version": 0, "streams.version": 0}
CHOSEN = ("transaction.version", "group.version", "eligible.leader.replicas.version")
RELEASES = ("4.3-IV0", "4.3")
# The metadata.version that a feature level needs, by Kafka's table.
NEEDS_METADATA = {("eligible.leader.replicas.version", 1): 23}


def main(arguments: Sequence[str] | None = None) -> int:
    return run_verbs(_parser(), _run, _failed, arguments)


def _parser() -> VerbParser:
    parser = VerbParser(prog="kafka-storage", description="Ids for clusters, directories for them.")
    verbs = parser.add_subparsers(dest="command", required=True, parser_class=VerbParser)
    info = verbs.add_parser("info", help="what the data directories of a node are")
    made = verbs.add_parser("format", help="make empty directories a cluster's")
    mapping = verbs.add_parser("version-mapping", help="the features of a release")
    needs = verbs.add_parser("feature-dependencies", help="what a feature's level needs")
    verbs.add_parser("random-uuid", help="print a new id")
    for each in (info, made):
        each.add_argument("--config", "-c", required=True, help="the node's server.properties")
    made.add_argument("--cluster-id", "-t", required=True, help="the cluster's id")
    made.add_argument(
        "--add-scram",
        "-S",
        action="append",
        default=[],
        help="a user: SCRAM-SHA-256=[name=alice,password=...]; may come again",
    )
    made.add_argument("--ignore-formatted", "-g", action="store_true", help="leave those alone")
    made.add_argument("--release-version", "-r", help=f"{RELEASE}, and no other")
    made.add_argument("--feature", "-f", action="append", default=[], help="feature=level")
    quorum = made.add_mutually_exclusive_group()
    quorum.add_argument("--standalone", "-s", action="store_true", help="a quorum of this node")
    quorum.add_argument(
        "--no-initial-controllers", "-N", action="store_true", help="join a quorum later"
    )
    quorum.add_argument("--initial-controllers", "-I", help="id@host:port:directory,...")
    mapping.add_argument("--release-version", "-r", default=RELEASE, help=RELEASE)
    needs.add_argument(
        "--feature", "-f", action="append", required=True, help="feature=level; may come again"
    )
    return parser


def _failed(problem: Exception) -> None:
    say(str(problem))


def _run(parsed: argparse.Namespace) -> int:
    match parsed.command:
        case "random-uuid":
            print(_new_id())
        case "version-mapping":
            _check_release(parsed.release_version)
            for name, level in LEVELS.items():
                shown = f"{level} ({RELEASE})" if name == METADATA_VERSION else str(level)
                print(f"{name}={shown}")
        case "feature-dependencies":
            for text in parsed.feature:
                _print_needs(text)
        case "info":
            return _info(load_server(parsed.config).config)
        case _:
            _format(parsed)
    return OK


def _new_id() -> str:
    """Return a new id that does not begin with a dash, which would look like an option."""
    while (text := id_to_text(uuid.uuid4().bytes)).startswith("-"):
        pass
    return text


# -- features


def _check_release(text: str) -> None:
    if text not in RELEASES:
        raise CommandRejected(
            f"Unknown release version '{text}'. Supported versions are: {RELEASE}"
        )


def _level(text: str) -> tuple[str, int]:
    name, equals, level = text.partition("=")
    if not equals:
        raise CommandRejected(f"Can't parse feature=level string {text}: equals sign not found.")
    if not level.isdecimal():
        raise CommandRejected(
            f"Can't parse feature=level string {text}: unable to parse {level} as a short."
        )
    if name not in SUPPORTED_LEVELS:
        known = ", ".join(sorted(SUPPORTED_LEVELS))
        raise CommandRejected(f"Unsupported feature: {name}. Supported features are: {known}")
    return name, int(level)


def _chosen_levels(texts: Sequence[str]) -> dict[str, int]:
    """Return the levels that were asked for, by feature; of two for one feature the last."""
    levels = dict(map(_level, texts))
    for name, level in levels.items():
        if level > SUPPORTED_LEVELS[name]:
            raise CommandRejected(
                f"Unsupported level {level} of feature {name}. Supported levels are: "
                f"0 to {SUPPORTED_LEVELS[name]}"
            )
        if name == METADATA_VERSION and level != SUPPORTED_LEVELS[name]:
            raise CommandRejected(
                f"--feature {name}={level}: a new cluster has {SUPPORTED_LEVELS[name]}"
            )
    return levels


def _print_needs(text: str) -> None:
    name, level = _level(text)
    if level > SUPPORTED_LEVELS[name]:
        raise CommandRejected(f"Feature level {level} is not supported for feature {name}")
    needed = NEEDS_METADATA.get((name, level))
    if needed is None:
        print(f"{name}={level} has no dependencies.")
    else:
        print(f"{name}={level} requires:\n    metadata.version={needed}")


# -- directories


def _format(parsed: argparse.Namespace) -> None:
    config = load_server(parsed.config).config
    levels = _chosen_levels(parsed.feature)
    _check_metadata_version(parsed.release_version, levels)
    _check_quorum(parsed, config)
    _check_kraft_version(levels.get(KRAFT_VERSION), config)
    formatting = import_module("penstock.formatting")
    try:
        done = formatting.format_directories(
            config,
            parsed.cluster_id,
            standalone=parsed.standalone,
            initial_controllers=parsed.initial_controllers,
            skip_formatted=parsed.ignore_formatted,
            levels={name: levels[name] for name in CHOSEN if name in levels},
            users=parsed.add_scram,
        )
    except formatting.FormatRejected as rejected:
        raise CommandRejected(str(rejected)) from None
    if not done.directories:
        print("All of the log directories are already formatted.")
    for directory in done.directories:
        kind = "data directory"
        if directory == done.metadata and not done.voters:
            kind = "metadata directory"
        elif directory == done.metadata:
            kind = "dynamic metadata voter directory"
            if config.node_id not in done.voters:
                kind = "dynamic metadata directory"
        print(f"Formatting {kind} {directory} with metadata.version {RELEASE}.")


def _check_metadata_version(release: str | None, levels: Mapping[str, int]) -> None:
    if release is None:
        return
    if METADATA_VERSION in levels:
        raise CommandRejected(
            f"Use --release-version instead of --feature {METADATA_VERSION}=X to avoid ambiguity."
        )
    if release not in RELEASES:
        raise CommandRejected(
            f"Unknown metadata.version '{release}'. Supported metadata.version are: {RELEASE}"
        )


def _check_quorum(parsed: argparse.Namespace, config: "BrokerConfig") -> None:
    """Raise CommandRejected if the options do not fit the configuration's quorum."""
    if config.voters and (parsed.standalone or parsed.initial_controllers is not None):
        raise CommandRejected(
            "You cannot specify controller.quorum.voters and format the node with "
            "--initial-controllers or --standalone. If you want to use dynamic quorum, please "
            "remove controller.quorum.voters and specify controller.quorum.bootstrap.servers "
            "instead."
        )
    if parsed.standalone and not config.is_controller:
        raise CommandRejected("You can only use --standalone on a controller.")
    chosen = parsed.standalone or parsed.no_initial_controllers
    chosen = chosen or parsed.initial_controllers is not None
    if config.is_controller and not config.voters and not chosen:
        raise CommandRejected(
            "Because controller.quorum.voters is not set on this controller, you must specify one "
            "of the following: --standalone, --initial-controllers, or --no-initial-controllers."
        )


def _check_kraft_version(level: int | None, config: "BrokerConfig") -> None:
    """Raise CommandRejected if kraft.version does not fit: 0 is a static quorum, 1 a dynamic."""
    if level == 0 and not config.voters:
        raise CommandRejected(
            "Cannot set kraft.version to 0 if controller.quorum.voters is empty and one of the "
            "flags --standalone, --initial-controllers, or --no-initial-controllers is used. For "
            "dynamic controllers support, try removing the --feature flag for kraft.version."
        )
    if level and config.voters:
        raise CommandRejected(
            f"Cannot set kraft.version to {level} unless controller.quorum.voters is empty and one "
            "of the flags --standalone, --initial-controllers, or --no-initial-controllers is "
            "used. For dynamic controllers support, try using one of --standalone, "
            "--initial-controllers, or --no-initial-controllers and removing "
            "controller.quorum.voters."
        )


def _info(config: "BrokerConfig") -> int:
    """Print the data directories and their metadata; return the exit code."""
    directories = sorted({*config.log_dirs, config.metadata_log_dir})
    found: list[str] = []
    problems: list[str] = []
    first: dict[str, str] | None = None
    for directory in directories:
        path = Path(directory)
        if not path.is_dir():
            missing = "is not a directory" if path.exists() else "does not exist"
            problems.append(f"{directory} {missing}")
            continue
        found.append(directory)
        if not (path / META_PROPERTIES).exists():
            problems.append(f"{directory} is not formatted.")
            continue
        try:
            text = (path / META_PROPERTIES).read_text()
            answered = {entry.key: entry.value for entry in parse_properties(text)}
        except (OSError, PropertiesError, UnicodeDecodeError) as problem:
            problems.append(f"Error loading {path / META_PROPERTIES}: {problem}")
            continue
        if first is None:
            first = answered
        elif answered.get("cluster.id") != first.get("cluster.id"):
            problems.append("Mismatched cluster IDs between storage directories.")
        elif answered.get("node.id") != first.get("node.id"):
            problems.append("Mismatched node IDs between storage directories.")
    _print_part("Found log directory:", "Found log directories:", found)
    if first is not None:
        shown = ", ".join(f"{key}={first[key]}" for key in sorted(first))
        print(f"Found metadata: {{{shown}}}\n")
    _print_part("Found problem:", "Found problems:", problems)
    return FAILED if problems else OK


def _print_part(one: str, several: str, lines: Sequence[str]) -> None:
    if lines:
        print(one if len(lines) == 1 else several)
        for line in lines:
            print(f"  {line}")
        print()
