"""`penstock profile list|show|set|use|remove`"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

import typer

from penstock.cli.arguments.completion import complete_profile
from penstock.cli.arguments.shared_options import with_format
from penstock.cli.profile.profiles import (
    HIDDEN,
    Profile,
    Profiles,
    check_name,
    is_secret,
    profiles_path,
    read_profiles,
    write_profiles,
)
from penstock.cli.terminal.output import (
    Format,
    Options,
    Row,
    WrongUsage,
    YesOption,
    confirm,
    counted,
    format_of,
    key_values,
    note,
    print_rows,
    print_value,
)
from penstock.client.namespace import BadNamespace, Namespace

app = typer.Typer(
    help="Clusters by name: addresses, namespaces and client keys to use with --profile.",
    no_args_is_help=True,
)

OWN_KEYS = ("bootstrap", "namespace")
Name = Annotated[str, typer.Argument(metavar="NAME", autocompletion=complete_profile)]


@app.command("list")
@with_format
def list_profiles(context: typer.Context) -> None:
    """List profiles; the current one is what commands use without --profile."""
    profiles = read_profiles(profiles_path())
    rows: list[Row] = [
        {
            "name": name,
            "current": name == profiles.current,
            "bootstrap": profile.bootstrap,
            "namespace": profile.namespace,
            "settings": len(profile.settings),
        }
        for name, profile in sorted(profiles.by_name.items())
    ]
    columns = ("name", "current", "bootstrap", "namespace", "settings")
    print_rows(format_of(context), columns, rows)


@app.command()
@with_format
def show(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", autocompletion=complete_profile, help="Default: the current one."
        ),
    ] = None,
) -> None:
    """Show what a profile says; secrets are hidden."""
    path = profiles_path()
    profiles = read_profiles(path)
    options: Options = context.obj
    chosen = name or options.profile or profiles.current
    if chosen is None:
        raise WrongUsage(
            "no profile is the current one; name one, or say `penstock profile use NAME`"
        )
    profile = profiles.named(chosen)
    settings: Row = {
        key: HIDDEN if is_secret(key) else value for key, value in sorted(profile.settings.items())
    }
    shown: Row = {
        "name": chosen,
        "current": chosen == profiles.current,
        "bootstrap": profile.bootstrap,
        "namespace": profile.namespace,
        "settings": settings,
        "file": str(path),
    }
    if format_of(context) is not Format.TABLE:
        print_value(format_of(context), shown)
        return
    rows: list[Row] = [
        {"key": key, "value": shown[key]} for key in OWN_KEYS if shown[key] is not None
    ]
    rows += [{"key": key, "value": value} for key, value in settings.items()]
    print_rows(Format.TABLE, ("key", "value"), rows)
    note(f"{chosen} in {path}")


@app.command("set")
@with_format
def set_keys(
    context: typer.Context,
    name: Name,
    pairs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="bootstrap, namespace, or a client key of Kafka or librdkafka.",
        ),
    ] = None,
    *,
    bootstrap: Annotated[
        str | None, typer.Option("--bootstrap", metavar="HOST:PORT", help="As bootstrap=HOST:PORT.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", metavar="PREFIX", help="As namespace=PREFIX.")
    ] = None,
    unset: Annotated[
        list[str], typer.Option("--unset", metavar="KEY", help="Take a key out; may be repeated.")
    ] = [],  # noqa: B006 - typer only reads the default
) -> None:
    """Make a profile, or change keys of it."""
    check_name(name)
    named = {"bootstrap": bootstrap, "namespace": namespace}
    given = key_values(pairs or (), "set")
    for key, value in named.items():
        if value is not None and given.setdefault(key, value) != value:
            raise WrongUsage(f"{key} is given twice: --{key} {value}, and {key}={given[key]}")
    if not given and not unset:
        raise WrongUsage("nothing to set; say --bootstrap HOST:PORT, KEY=VALUE or --unset KEY")
    path = profiles_path()
    profiles = read_profiles(path)
    before = profiles.by_name.get(name, Profile())
    profile = _changed(before, given, unset)
    write_profiles(path, profiles.with_profile(name, profile))
    _report(context, name, "changed" if name in profiles.by_name else "made")
    from penstock.client.cluster.nodes import PORT_DEFAULT

    for each in (given.get("bootstrap") or "").split(","):
        if each.strip() and ":" not in each:
            note(f"note: {each.strip()} has no port; {PORT_DEFAULT} is used")
    if profile.namespace and profile.namespace != before.namespace:
        note(
            f"note: {profile.namespace} keeps names apart and is no security boundary: who may "
            "connect may use any prefix"
        )
    if profiles.current != name:
        note(f"`penstock profile use {name}` makes it the current one")


def _changed(profile: Profile, given: Mapping[str, str], unset: list[str]) -> Profile:
    for key in unset:
        if key not in OWN_KEYS and key not in profile.settings:
            raise WrongUsage(f"the profile has no {key}")
    for key, value in given.items():
        _check(key, value)
    settings = {key: value for key, value in profile.settings.items() if key not in unset}
    settings |= {key: value for key, value in given.items() if key not in OWN_KEYS}
    own = {key: given[key] or None for key in OWN_KEYS if key in given}
    return replace(profile, **dict.fromkeys(set(unset) & set(OWN_KEYS)), **own, settings=settings)


def _check(key: str, value: str) -> None:
    """Raise CommandFailed for a key or a value that can never work."""
    from penstock.client.cluster.nodes import parse_bootstrap

    try:
        value.encode()
        if key == "bootstrap":
            parse_bootstrap(value)
        elif key == "namespace":
            Namespace(value)
        else:
            _check_client_key(key)
    except (BadNamespace, ValueError) as problem:
        raise WrongUsage(f"{key}: {problem}") from None


def _check_client_key(key: str) -> None:
    from penstock.client.settings.keys_rdkafka import ALIASES
    from penstock.client.settings.table import (
        PASSING,
        RETIRED,
        ROWS,
        Client,
        is_for_serdes,
        nearest,
    )

    known = any(key in ROWS[each] or key in PASSING[each] for each in Client)
    if known or key in ALIASES or key in RETIRED or is_for_serdes(key):
        return
    near = nearest(key, Client.PRODUCER) or nearest(key, Client.CONSUMER)
    raise ValueError("there is no such key" + (f"; is {near} meant?" if near else ""))


@app.command()
@with_format
def use(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", autocompletion=complete_profile)
    ] = None,
    *,
    none: Annotated[bool, typer.Option("--none", help="No profile is the current one.")] = False,
) -> None:
    """Make a profile the current one: commands use it unless --profile names another."""
    if (name is None) != none:
        raise WrongUsage("say which: NAME, or --none")
    path = profiles_path()
    profiles = read_profiles(path)
    if name is not None:
        profiles.named(name)
    write_profiles(path, Profiles(name, profiles.by_name))
    _report(context, name or "no profile", "current")


@app.command()
@with_format
def remove(context: typer.Context, name: Name, *, yes: YesOption = False) -> None:
    """Remove a profile, with the client keys and secrets in it."""
    path = profiles_path()
    profiles = read_profiles(path)
    profile = profiles.named(name)
    keys = counted(len(profile.settings), "client key")
    confirm(f"Remove profile {name} ({profile.bootstrap or 'no address'}, {keys})?", yes=yes)
    write_profiles(path, profiles.without(name))
    _report(context, name, "removed")


def _report(context: typer.Context, name: str, what: str) -> None:
    form = format_of(context)
    if form is Format.TABLE:
        print(f"{name}: {what}")
    else:
        print_value(form, {"name": name, "done": True, "what": what})
