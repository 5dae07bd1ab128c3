"""Without PySpark every entry says how to install it. Each is tried in a Python without it."""

import subprocess
import sys

import pytest

WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pyspark":
            raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
sys.meta_path.insert(0, Absent())
def told(entry):
    try:
        exec(entry, {})
    except ModuleNotFoundError as missing:
        print(missing)
def command(*words):
    from penstock.cli.main import main
    sys.argv = ["penstock", *words]
    try:
        main()
    except SystemExit as ended:
        print(ended.code)
"""
ENTRIES = (
    "import penstock.spark",
    "import penstock.spark.session",
    "from penstock.spark.foreach import write_batch",
    "from penstock.streams import Streams",
)
COMMANDS = (
    ("streams", "run", "app.py"),
    ("streams", "describe", "app.py"),
    ("streams", "list"),
    ("streams", "reset", "shop"),
    ("spark", "warmup"),
    ("txn", "recover"),
)


@pytest.fixture(scope="module")
def said() -> list[str]:
    calls = [f"told({entry!r})" for entry in ENTRIES]
    calls += [f"command(*{words!r})" for words in COMMANDS]
    ended = subprocess.run(
        [sys.executable, "-c", "\n".join([WITHOUT, *calls])],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
        timeout=120,
    )
    return ended.stdout.splitlines()


def test_every_module_says_what_to_install(said: list[str]) -> None:
    assert len([each for each in said if each.startswith("penstock.")]) == len(ENTRIES)
    assert all("pip install 'penstock[spark]'" in each for each in said[: len(ENTRIES)])


def test_every_command_says_what_to_install(said: list[str]) -> None:
    line = "this command needs pyspark, which is not installed: pip install 'penstock[spark]'"
    assert len([each for each in said if line in each]) == len(COMMANDS), said
