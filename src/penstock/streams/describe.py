"""The topology as text: a tree per query, from its sinks down to its sources."""

from penstock.streams.durations import duration_text
from penstock.streams.queries import Query, TopologyPlan
from penstock.streams.settings import StreamsSettings
from penstock.streams.topology import Internal, SourceNode, TopologyNode, is_stateful


def describe(settings: StreamsSettings, plan: TopologyPlan) -> str:
    lines = [
        f"Application {settings.application_id} on {settings.bootstrap}, "
        f"{_counted(len(plan.queries), 'query', 'queries')}",
        f"  state in {settings.directory}",
        f"  bad records: {_bad_records(settings)}",
    ]
    for query in plan.queries:
        lines += ["", *_query(query, settings)]
    return "\n".join(lines)


def _bad_records(settings: StreamsSettings) -> str:
    word = settings.bad_records.value.replace("_", " ")
    return f"{word} to {settings.dead_letters}" if "letter" in word else word


def _query(query: Query, settings: StreamsSettings) -> list[str]:
    lines = [f"Query {query.name}  ({', '.join(_facts(query))})"]
    drawn: set[int] = set()
    if query.dead_letters_of:
        lines.append(f"  to {settings.dead_letters}")
        for at, node in enumerate(query.dead_letters_of):
            lines += _tree(node, "  ", at == len(query.dead_letters_of) - 1, drawn)
    for path in query.paths:
        lines.append(f"  {path.sink.text() if query.writes else 'store ' + query.stores[0]}")
        end = path.sink.parents[0]
        lines += _tree(end, "  ", True, drawn)
    return lines


def _facts(query: Query) -> list[str]:
    facts = ["with state" if query.stateful else "without state"]
    if query.updates:
        facts.append("every update, through write_batch")
    elif query.stateful:
        facts.append("appends")
    if query.grace_ms is not None:
        facts.append(f"grace {duration_text(query.grace_ms)}")
    if len(query.paths) > 1:
        facts.append("rows say their topic")
    return facts


def _tree(node: TopologyNode, indent: str, is_last: bool, drawn: set[int]) -> list[str]:
    """Draw a node; one that was drawn before is named only."""
    mark, below = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
    known = id(node) in drawn
    drawn.add(id(node))
    state = "*" if is_stateful(node) else ""
    line = f"{indent}{mark}{node.name}{state}: {node.text()}"
    if known and node.parents:
        return [f"{line}  (as above)"]
    lines = [line]
    if isinstance(node, Internal | SourceNode):
        return lines
    for at, parent in enumerate(node.parents):
        lines += _tree(parent, indent + below, at == len(node.parents) - 1, drawn)
    return lines


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
