"""Values as YAML documents, in block style.

YAML 1.1 and 1.2 read the same value back: a text that either takes for a number or a boolean is
written in quotes.
"""

import re

import yaml  # type: ignore[import-untyped]

from penstock.cli.terminal.output import Json

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@+-]*(?: [A-Za-z0-9_./@+-]+)*")


class _BlockDumper(yaml.SafeDumper):  # type: ignore[misc]
    """Indents lists below their key, and writes a value again instead of an alias."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, False)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    plain = _PLAIN.fullmatch(text) and text.lower() not in ("y", "n")
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


_BlockDumper.add_representer(str, _represent_text)


def to_yaml(value: Json) -> str:
    """Return the value as one document, with a newline at its end."""
    text: str = yaml.dump(
        value, Dumper=_BlockDumper, allow_unicode=True, sort_keys=False, width=float("inf")
    )
    return text
