"""Options that every command takes, before its name and after it.

`@on_cluster` adds the options that choose the cluster and the format; `@with_format` adds the
format only. Commands read these with `access_of(context)` and `format_of(context)`.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

import typer

from penstock.cli.arguments.completion import complete_client_setting, complete_profile
from penstock.cli.terminal.output import Format, Options, WrongUsage, shown

SETTINGS_HELP = "A client key of Kafka or librdkafka, e.g. security.protocol=SSL; may be repeated."

BootstrapOption = Annotated[
    str | None,
    typer.Option("--bootstrap", metavar="HOST:PORT", help="A server of the cluster, or several."),
]
FormatOption = Annotated[
    Format | None, typer.Option("--format", help="json and yaml are the stable forms for programs.")
]
ProfileOption = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        autocompletion=complete_profile,
        help="A profile: see `penstock profile`.",
    ),
]
NamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        metavar="PREFIX",
        help="Stands before all names of topics, groups and transactional ids; others are hidden. "
        "No security boundary. '' for none.",
    ),
]
SettingsOption = Annotated[
    list[str],
    typer.Option(
        "-X",
        "--property",
        metavar="KEY=VALUE",
        autocompletion=complete_client_setting,
        help=SETTINGS_HELP,
        show_default=False,
    ),
]


def _reject_no_text(given: Iterable[object]) -> None:
    """Raise CommandFailed for arguments that are no UTF-8; names of files are no `str` here."""
    for each in given:
        if isinstance(each, str) and not _is_text(each):
            raise WrongUsage(f"{shown(each)} is no UTF-8")
        if isinstance(each, list | tuple):
            _reject_no_text(each)


def _is_text(said: str) -> bool:
    """Return whether the text is UTF-8: Python turns other bytes into lone surrogates."""
    try:
        said.encode()
    except UnicodeEncodeError:
        return False
    return True


def _option(name: str, annotation: object, default: object = None) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


FORMAT_NAMES = ("format",)
CLUSTER_NAMES = ("bootstrap", "profile", "namespace", "settings", *FORMAT_NAMES)

_FORMAT = (_option("format", FormatOption),)
_CLUSTER = (
    _option("bootstrap", BootstrapOption),
    _option("profile", ProfileOption),
    _option("namespace", NamespaceOption),
    _option("settings", SettingsOption, []),
    *_FORMAT,
)


def on_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command that talks to a cluster."""
    return _taking(command, _CLUSTER)


def with_format(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command that needs no server."""
    return _taking(command, _FORMAT)


def _taking(
    command: Callable[..., None], options: Sequence[inspect.Parameter]
) -> Callable[..., None]:
    """Return the command with more options, whose values are in the context.

    Typer reads the options from the signature, so the signature is extended.
    """
    own = inspect.signature(command)
    assert not {each.name for each in options} & set(own.parameters), "an option is taken twice"

    @functools.wraps(command)
    def run(context: typer.Context, **given: Any) -> None:
        said = {each.name: given.pop(each.name) for each in options}
        if "settings" in said:
            said["settings"] = tuple(said["settings"] or ())
        before: Options = context.obj
        context.obj = before.followed_by(Options(**said))
        if options is _CLUSTER:
            _reject_no_text((*context.obj, *given.values()))
        command(context, **given)

    signature = own.replace(parameters=[*own.parameters.values(), *options])
    run.__signature__ = signature  # type: ignore[attr-defined]
    return run
