"""Which cluster a command talks to, and how: flags over environment over profile.

The environment: PENSTOCK_BOOTSTRAP, PENSTOCK_PROFILE, PENSTOCK_NAMESPACE, PENSTOCK_FORMAT, and
PENSTOCK_X_SECURITY_PROTOCOL for the client key security.protocol (`_` stands for a dot, `__` for an
underscore, `___` for a dash), so that secrets need not be typed.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import typer

from penstock.cli.profile.profiles import Profile, profiles_path, read_profiles, readable_by_others
from penstock.cli.terminal.output import BOOTSTRAP_DEFAULT, Options, WrongUsage, key_values, note
from penstock.client.namespace import NO_NAMESPACE, BadNamespace, Namespace, namespace_of

if TYPE_CHECKING:
    from penstock.client.admin.blocking import Admin
    from penstock.client.settings import AdminSettings

SETTING_PREFIX = "PENSTOCK_X_"
BOOTSTRAP_KEY = "bootstrap.servers"
NAMESPACE_KEY = "namespace"
BOOTSTRAP_VARIABLE, PROFILE_VARIABLE = "PENSTOCK_BOOTSTRAP", "PENSTOCK_PROFILE"


@dataclass(frozen=True, slots=True)
class Access:
    """A cluster; `settings` are client keys of Kafka or librdkafka, `typed` those on the line."""

    bootstrap: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    namespace: Namespace = NO_NAMESPACE
    typed: frozenset[str] = frozenset()

    @property
    def where(self) -> str:
        """Return the cluster as a text for confirmation questions."""
        named = f" (namespace {self.namespace.prefix})" if self.namespace else ""
        return self.bootstrap + named


def access_of(context: typer.Context) -> Access:
    """Return the cluster of a command, from its flags, the environment and the profile."""
    options: Options = context.obj
    profile = _profile(options.profile)
    _note_other_cluster(options, profile)
    return resolve(options, profile, os.environ)


def _note_other_cluster(options: Options, profile: Profile) -> None:
    """Print a note if a variable overrides the cluster of the profile on the line."""
    said = os.environ.get(BOOTSTRAP_VARIABLE)
    on_the_line = options.profile is not None and options.profile != os.environ.get(
        PROFILE_VARIABLE
    )
    if on_the_line and said and options.bootstrap == said and profile.bootstrap not in (None, said):
        note(
            f"note: {BOOTSTRAP_VARIABLE} ({said}) goes before profile {options.profile}'s "
            f"{profile.bootstrap}"
        )


def _profile(name: str | None) -> Profile:
    path = profiles_path()
    profile = read_profiles(path).chosen(name)
    if profile.has_secrets and readable_by_others(path):
        note(f"warning: {path} holds secrets and others may read it: chmod 600 {path}")
    return profile


def resolve(options: Options, profile: Profile, environment: Mapping[str, str]) -> Access:
    typed = key_values(options.settings, "-X")
    settings = {**profile.settings, **_settings_in(environment), **typed}
    said = settings.pop(BOOTSTRAP_KEY, None)
    prefixes = (options.namespace, settings.pop(NAMESPACE_KEY, None), profile.namespace)
    try:
        # An empty namespace counts, too: it overrides the profile's.
        namespace = namespace_of(next((each for each in prefixes if each is not None), None))
    except BadNamespace as wrong:
        raise WrongUsage(str(wrong)) from None
    bootstrap = typed.get(BOOTSTRAP_KEY) or options.bootstrap or said or profile.bootstrap
    return Access(bootstrap or BOOTSTRAP_DEFAULT, settings, namespace, frozenset(typed))


def _settings_in(environment: Mapping[str, str]) -> dict[str, str]:
    named = [name for name in sorted(environment) if name.startswith(SETTING_PREFIX)]
    if not named:
        return {}
    from penstock.config.environment import PREFIX, key_of_variable

    return {
        key_of_variable(PREFIX + name.removeprefix(SETTING_PREFIX)): environment[name]
        for name in named
    }


CLIENT_ID = "penstock-cli"
TIMEOUT_S = 15.0


@contextmanager
def connect(access: Access) -> Iterator["Admin"]:
    """Open an admin client for the time of a command."""
    # Imported here because loading the protocol would delay every help text.
    from penstock.client.admin.blocking import Admin

    said = _settings(access) if access.settings else None
    try:
        if said is None:
            admin = Admin(
                bootstrap=access.bootstrap,
                client_id=CLIENT_ID,
                timeout_s=TIMEOUT_S,
                namespace=access.namespace,
            )
        else:
            timed = "request.timeout.ms" in access.settings
            admin = Admin(
                bootstrap=access.bootstrap,
                client_id=said.client_id if "client.id" in access.settings else CLIENT_ID,
                timeout_s=said.request_timeout_ms / 1000 if timed else TIMEOUT_S,
                api_timeout_s=said.api_timeout_ms / 1000,
                security=said.security,
                namespace=access.namespace,
            )
    except ValueError as problem:
        raise WrongUsage(f"--bootstrap: {problem}") from None
    with admin:
        yield admin


def _settings(access: Access) -> "AdminSettings":
    """Return the admin settings; keys of other clients are ignored, as a command may need both."""
    from penstock.client.settings import SettingRefused, admin_settings

    try:
        return admin_settings(access.settings, bootstrap=access.bootstrap)
    except SettingRefused as rejected:
        raise WrongUsage(f"-X {rejected}") from None
