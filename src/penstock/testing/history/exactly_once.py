"""Checks consume-transform-produce: every input of a group has its outputs exactly once.

The sends of the pipeline name their input (`source`); the group's commits give its progress.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.model import TopicPartition
from penstock.testing.history.anomalies import Anomaly, NotExactlyOnce
from penstock.testing.history.events import Isolation, Moment, OffsetFetch, Place, Send
from penstock.testing.history.evidence import Evidence


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A group that reads topics and writes to others in transactions."""

    group: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    outputs_per_input: int = 1


def check_pipeline(evidence: Evidence, pipeline: Pipeline) -> Iterator[Anomaly]:
    outputs = _outputs(evidence, pipeline)
    inputs = _inputs(evidence, pipeline)
    output_partitions = {
        each.partition
        for each in evidence.sends.values()
        if each.partition.topic in pipeline.outputs
    }
    progress = {
        each: _progress(evidence, pipeline, each)
        for each in {place.partition for place in (*inputs, *outputs)}
    }
    for source in sorted({*inputs, *outputs}):
        fetch, committed = progress[source.partition]
        found = outputs.get(source, [])
        sends = tuple(each for each, _ in found)
        expected = pipeline.outputs_per_input
        wrong = len(sends) > expected
        if fetch is not None and source.offset >= (committed or 0):
            # The records were visible before the request: so the commit should have been.
            if any(seen < fetch.span.began for _, seen in found):
                expected, wrong = 0, True
        elif fetch is not None and fetch.span.ended is not None and len(sends) < expected:
            wrong = evidence.read_to_end_after(
                fetch.span.ended, Isolation.READ_COMMITTED, output_partitions
            )
        if wrong:
            value = inputs.get(source)
            yield NotExactlyOnce(pipeline.group, source, value, committed, sends, expected)


def _outputs(evidence: Evidence, pipeline: Pipeline) -> dict[Place, list[tuple[Send, Moment]]]:
    """Return, per input, the outputs that read_committed consumers saw, and the first moment of
    each."""
    found: dict[Place, list[tuple[Send, Moment]]] = defaultdict(list)
    for (topic, value), send in evidence.sends.items():
        if topic not in pipeline.outputs or send.source is None:
            continue
        seen = [
            poll.span.ended
            for poll, _ in evidence.sightings.get((topic, value), ())
            if poll.isolation is Isolation.READ_COMMITTED and poll.span.ended is not None
        ]
        if seen and send.source.partition.topic in pipeline.inputs:
            found[send.source].append((send, min(seen)))
    return found


def _inputs(evidence: Evidence, pipeline: Pipeline) -> dict[Place, bytes]:
    """Return the input records that read_committed consumers saw."""
    return {
        record.place: record.value
        for (topic, _), sightings in evidence.sightings.items()
        if topic in pipeline.inputs
        for poll, record in sightings
        if poll.isolation is Isolation.READ_COMMITTED
    }


def _progress(
    evidence: Evidence, pipeline: Pipeline, partition: TopicPartition
) -> tuple[OffsetFetch | None, int | None]:
    """Return the last answer about the group's commit in an input partition."""
    fetches = evidence.fetches.get((pipeline.group, partition), [])
    return max(fetches, key=lambda each: each[0].span.began, default=(None, None))
