"""`python -m penstock.cli.kafka kafka-topics ...`: the commands where they are not installed."""

import sys
from collections.abc import Sequence
from importlib import import_module
from pkgutil import iter_modules

import penstock.cli.kafka
from penstock.cli.kafka.framework.runner import FAILED, say

# Every module beside this one is a command; their parts are in folders.
NAMES = tuple(
    f"kafka-{each.name.replace('_', '-')}"
    for each in iter_modules(penstock.cli.kafka.__path__)
    if not each.ispkg and each.name != "__main__"
)


def run(name: str, arguments: Sequence[str]) -> int:
    """Run a command by its name and return its exit code."""
    module = import_module(f"penstock.cli.kafka.{name.removeprefix('kafka-').replace('-', '_')}")
    return int(module.main(arguments))


def main() -> int:
    name, *arguments = sys.argv[1:] or [""]
    name = name.removesuffix(".sh")
    if name not in NAMES:
        say(f"{name or 'no name'} is none of the commands: {', '.join(NAMES)}")
        return FAILED
    return run(name, arguments)


if __name__ == "__main__":
    sys.exit(main())
