"""Profiles: their file, their precedence, hidden secrets."""

import stat
import tomllib
from pathlib import Path

import pytest
from cli_running import run, run_at_terminal
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.connection.access import resolve
from penstock.cli.profile.profiles import Profile, Profiles, is_secret, read_profiles, to_toml
from penstock.cli.terminal.output import CommandFailed, ExitCode, Options
from penstock.cli.worker import configure
from penstock.worker import Worker

JAAS = 'org.apache...PlainLoginModule required username="ann" password="open sesame";'


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In a directory that is not there yet."""
    path = tmp_path / "new" / "config.toml"
    monkeypatch.setenv("PENSTOCK_CONFIG", str(path))
    return path


def test_a_profile_is_made_listed_shown_used_and_removed(file: Path) -> None:
    made = run("profile", "set", "staging", "bootstrap=127.0.0.1:2", "namespace=dev.", "acks=1")
    assert (made.code, made.out) == (0, "staging: made\n")
    assert "no security boundary" in made.err
    assert "`penstock profile use staging`" in made.err
    assert run("profile", "use", "staging").code == 0
    (row,) = run("profile", "list", "--format", "json").json
    assert row == {
        "name": "staging", "current": True, "bootstrap": "127.0.0.1:2", "namespace": "dev.",
        "settings": 1,
    }  # fmt: skip
    assert run("profile", "show", "--format", "json").json["settings"] == {"acks": "1"}
    assert "127.0.0.1:2 cannot be reached" in run("topic", "list").err
    assert run("profile", "remove", "staging", "--yes").code == 0
    assert run("profile", "list", "--format", "json").json == []
    assert read_profiles(file) == Profiles()


def test_keys_are_changed_one_by_one(file: Path) -> None:
    run("profile", "set", "p", "bootstrap=a:1", "acks=1", "linger.ms=5")
    assert run("profile", "set", "p", "acks=all", "--unset", "linger.ms").out == "p: changed\n"
    assert run("profile", "set", "p", "--unset", "bootstrap").code == 0
    assert read_profiles(file).named("p") == Profile(None, None, {"acks": "all"})
    assert run("profile", "set", "p", "--unset", "never.there").code == 2


def test_the_file_is_for_its_owner_only(file: Path) -> None:
    run("profile", "set", "p", "bootstrap=a:1")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    file.chmod(0o644)
    run("profile", "set", "p", "acks=1")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_secrets_are_hidden(file: Path) -> None:
    run("profile", "set", "p", f"sasl.jaas.config={JAAS}", "ssl.key.password=x", "acks=1")
    for form in "table", "json", "yaml":
        shown = run("profile", "show", "p", "--format", form)
        assert "sesame" not in shown.out + shown.err
        assert shown.out.count("(hidden)") == 2
        assert "acks" in shown.out
    assert JAAS in file.read_text().replace('\\"', '"')


def test_secrets_that_others_may_read_are_told(file: Path) -> None:
    run("profile", "set", "p", "bootstrap=127.0.0.1:1", "sasl.password=x")
    assert "others may read it" not in run("topic", "list", "--profile", "p").err
    file.chmod(0o644)
    assert f"chmod 600 {file}" in run("topic", "list", "--profile", "p").err


@pytest.mark.parametrize(
    "key",
    ["ssl.keystore.password", "sasl.jaas.config", "sasl.password", "ssl.key.pem",
     "sasl.oauthbearer.client.secret", "basic.auth.user.info", "ssl.keystore.key",
     "sasl.oauthbearer.assertion.private.key.passphrase"],
)  # fmt: skip
def test_keys_with_secrets_are_known(key: str) -> None:
    assert is_secret(key)


@pytest.mark.parametrize(
    "key", ["bootstrap.servers", "ssl.key.location", "key.serializer", "security.protocol", "acks"]
)
def test_keys_without_secrets_are_shown(key: str) -> None:
    assert not is_secret(key)


@pytest.mark.usefixtures("file")
def test_a_profile_that_is_not_there_is_told_with_those_that_are() -> None:
    run("profile", "set", "p", "bootstrap=a:1")
    for command in (["topic", "list"], ["profile", "show"]):
        ran = run("--profile", "q", *command)
        assert ran.code == 2
        assert "there is no profile q; there is p" in ran.err
    assert run("profile", "use", "q").code == 2
    assert run("profile", "remove", "q", "--yes").code == 2


def test_a_profile_is_removed_when_somebody_says_so(file: Path) -> None:
    run("profile", "set", "p", "bootstrap=a:1")
    assert run("profile", "remove", "p").code == 2
    assert run_at_terminal("profile", "remove", "p", typed=b"n\n").code == 1
    assert "p" in read_profiles(file).by_name
    assert run_at_terminal("profile", "remove", "p", typed=b"y\n").code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["p", "bootstrap=no-port:x"],
        ["p", "namespace=no spaces"],
        ["../p", "acks=1"],
        ["p", "acks"],
        ["p", "security.protocl=SSL"],
        ["p", "--bootstrap", "a:1", "bootstrap=b:1"],
    ],
)
def test_what_could_never_work_is_refused(file: Path, arguments: list[str]) -> None:
    assert run("profile", "set", *arguments).code == 2
    assert not file.exists()


def test_a_host_without_a_port_is_told_which_one_it_gets(file: Path) -> None:
    ran = run("profile", "set", "p", "--bootstrap", "nonsense")
    assert file.exists()
    assert "note: nonsense has no port; 9092 is used" in ran.err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("current = 1", "current must be a text"),
        ("other = 1", "the file has 'other'"),
        ("profiles = 1", "profiles must be a table"),
        ("[profiles]\na = 1", "profiles.a must be a table"),
        ('[profiles.a]\nacks = "1"', "profiles.a has 'acks'"),
        ("[profiles.a.settings]\nsecurity.protocol = 'SSL'", "keys with dots need quotes"),
        ("[profiles.a.settings]\nacks = [1]", "must be a text or a number"),
        ("[profiles", "at the end of a table"),
    ],
)
def test_a_file_that_is_no_profiles_says_where(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(CommandFailed, match=why) as rejected:
        read_profiles(path)
    assert rejected.value.code is ExitCode.USAGE


def test_numbers_and_truth_values_are_settings_too(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[profiles.a.settings]\nacks = 1\n"enable.idempotence" = true\n')
    assert read_profiles(path).named("a").settings == {"acks": "1", "enable.idempotence": "true"}


texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


@given(st.dictionaries(texts, st.builds(Profile, texts, texts, st.dictionaries(texts, texts))))
def test_what_was_written_is_read_back(by_name: dict[str, Profile]) -> None:
    profiles = Profiles(next(iter(by_name), None), by_name)
    table = tomllib.loads(to_toml(profiles))
    assert table.get("current") == profiles.current
    assert {
        name: Profile(each["bootstrap"], each["namespace"], each.get("settings", {}))
        for name, each in table.get("profiles", {}).items()
    } == by_name


# -- what wins

PROFILE = Profile("profile:1", "p.", {"acks": "1", "linger.ms": "2"})


def test_flags_win_over_the_environment_and_that_over_the_profile() -> None:
    environment = {"PENSTOCK_X_LINGER_MS": "3", "PENSTOCK_X_CLIENT_ID": "e", "OTHER": "x"}
    access = resolve(Options(settings=("client.id=f",)), PROFILE, environment)
    assert access.settings == {"acks": "1", "linger.ms": "3", "client.id": "f"}
    assert access.typed == {"client.id"}
    assert (access.bootstrap, access.namespace.prefix) == ("profile:1", "p.")
    said = resolve(Options("flag:1", namespace="f."), PROFILE, environment)
    assert (said.bootstrap, said.namespace.prefix) == ("flag:1", "f.")


@pytest.mark.parametrize("said", [Options(namespace=""), Options(settings=("namespace=",))])
def test_an_empty_namespace_that_is_said_wins_over_the_profiles(said: Options) -> None:
    assert not resolve(said, PROFILE, {}).namespace


def test_an_address_among_the_settings_is_an_address() -> None:
    assert resolve(Options(settings=("bootstrap.servers=x:1",)), PROFILE, {}).bootstrap == "x:1"
    kept = Profile(None, None, {"bootstrap.servers": "y:1", "namespace": "n."})
    access = resolve(Options(), kept, {})
    assert (access.bootstrap, access.namespace.prefix, access.settings) == ("y:1", "n.", {})
    assert resolve(Options(), Profile(), {}).bootstrap == "127.0.0.1:9092"


def test_names_of_keys_in_the_environment_may_have_dashes_and_underscores() -> None:
    access = resolve(Options(), Profile(), {"PENSTOCK_X_A_B__C___D": "1"})
    assert access.settings == {"a.b_c-d": "1"}


@pytest.mark.usefixtures("file")
def test_the_environment_chooses_profile_and_address(monkeypatch: pytest.MonkeyPatch) -> None:
    run("profile", "set", "p", "bootstrap=127.0.0.1:2")
    run("profile", "set", "q", "bootstrap=127.0.0.1:3")
    run("profile", "use", "p")
    assert "127.0.0.1:2 cannot" in run("topic", "list").err
    monkeypatch.setenv("PENSTOCK_PROFILE", "q")
    assert "127.0.0.1:3 cannot" in run("topic", "list").err
    assert "127.0.0.1:2 cannot" in run("topic", "list", "--profile", "p").err
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:4")
    assert "127.0.0.1:4 cannot" in run("topic", "list").err
    assert "127.0.0.1:5 cannot" in run("topic", "list", "--bootstrap", "127.0.0.1:5").err


def test_no_profile_may_be_the_current_one(file: Path) -> None:
    run("profile", "set", "p", "bootstrap=127.0.0.1:2")
    run("profile", "use", "p")
    assert run("profile", "use", "--none").code == 0
    assert read_profiles(file).current is None
    assert run("profile", "use", "p", "--none").code == 2


@pytest.mark.parametrize(
    "line", [("--profile", "staging", "topic", "list"), ("topic", "list", "--profile", "staging")]
)
def test_an_address_of_the_environment_that_hides_the_profiles_is_told(
    file: Path, monkeypatch: pytest.MonkeyPatch, line: tuple[str, ...]
) -> None:
    assert not file.exists()
    run("profile", "set", "staging", "bootstrap=127.0.0.1:2")
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:1")
    told = "note: PENSTOCK_BOOTSTRAP (127.0.0.1:1) goes before profile staging's 127.0.0.1:2\n"
    assert run(*line).err.startswith(told)
    monkeypatch.setenv("PENSTOCK_PROFILE", "staging")
    assert "note: " not in run("topic", "list").err


@pytest.mark.parametrize(
    ("options", "prefix"),
    [(Options(), "w."), (Options(namespace=""), ""), (Options(namespace="f."), "f.")],
)
def test_a_namespace_that_is_said_goes_before_that_of_a_worker(
    options: Options, prefix: str
) -> None:
    application = Worker(group="g", namespace="w.")
    configure(application, resolve(options, Profile(), {}), options)
    assert application.namespace == prefix
