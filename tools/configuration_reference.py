"""Writes the reference of all keys, docs/reference/configuration.md, from the tables.

python -m tools.configuration_reference > docs/reference/configuration.md
"""

from collections.abc import Callable, Iterable

from penstock.config.key import DOUBLE_MAX, INT_MAX, LONG_MAX, Effect, Key, Value
from penstock.config.keys_group import allowed_text
from penstock.config.table import GROUP_KEYS, SECTIONS, TOPIC_KEYS
from penstock.config.values import to_text

_HEAD = """\
# Configuration keys

Made from the code by `python -m tools.configuration_reference`; do not edit.

Broker keys are set in a `server.properties` file (`penstock start --config FILE`), as `KAFKA_*`
environment variables (`KAFKA_LOG_RETENTION_HOURS` is `log.retention.hours`: `_` stands for a dot,
`__` for an underscore, `___` for a dash), or as `--set KEY=VALUE`. `--set` comes before the
environment, the environment before files, files before defaults. Keys marked *cluster-wide* or
*per-broker* can also change while a broker runs (`penstock config set`). Topic keys are set when a
topic is created or later (`penstock config set --topic NAME KEY=VALUE`). Group keys are set at any
time, also before there is such a group (`penstock config set --group NAME KEY=VALUE`).

Every key of Apache Kafka 4.3's brokers, topics and groups is known. **In effect** says whether a
key does something here: *yes*, *not yet* (accepted without effect for now), or *not needed*
(accepted; there is nothing here that it could change).
"""

_EFFECTS = {Effect.NOW: "yes", Effect.LATER: "not yet", Effect.NEVER: "not needed"}
_GREATEST: dict[Value, str] = {
    INT_MAX: "2^31 - 1",
    LONG_MAX: "2^63 - 1",
    DOUBLE_MAX: "no limit",
}


def reference() -> str:
    """Return the whole page."""
    parts = [_HEAD, "## Topic keys\n", *_override_table(TOPIC_KEYS.values(), _allowed)]
    parts += ["\n## Group keys\n", *_override_table(GROUP_KEYS.values(), allowed_text)]
    parts.append("\n# Broker keys\n")
    for title, keys in SECTIONS.items():
        parts.append(f"\n## {title}\n")
        parts.extend(_broker_table(keys))
    return "\n".join(parts) + "\n"


def _override_table(keys: Iterable[Key], allowed: Callable[[Key], str]) -> Iterable[str]:
    """Yield the table rows of topic or group keys, which override the broker's."""
    yield "| key | type | default | allowed | broker keys behind it | in effect | |"
    yield "|---|---|---|---|---|---|---|"
    for key in keys:
        if not key.internal:
            behind = "<br>".join(f"`{name}`" for name, _ in key.synonyms)
            yield _row(key, allowed(key), behind)


def _broker_table(keys: Iterable[Key]) -> Iterable[str]:
    yield "| key | type | default | allowed | changes | in effect | |"
    yield "|---|---|---|---|---|---|---|"
    for key in keys:
        if not key.internal:
            yield _row(key, _allowed(key), key.mode.value)


def _allowed(key: Key) -> str:
    return key.allowed.text() if key.allowed is not None else ""


def _row(key: Key, allowed: str, middle: str) -> str:
    cells = (
        f"`{key.name}`",
        key.type.name.lower(),
        _default(key.default),
        allowed,
        middle,
        _EFFECTS[key.effect],
        key.about,
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(value: Value) -> str:
    # Compared by type too: True == 1, and 1 is no limit.
    if isinstance(value, int | float) and not isinstance(value, bool) and value in _GREATEST:
        return _GREATEST[value]
    text = to_text(value)
    return f"`{text}`" if text else ""


if __name__ == "__main__":
    print(reference(), end="")
