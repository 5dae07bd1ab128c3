"""Which closed segments become one: neighbours that fit together, so that cleaned segments do not
shrink without end."""

from collections.abc import Callable, Sequence

from penstock.log.compaction.order import Segment
from penstock.log.index import RELATIVE_OFFSET_MAX

# Bytes of a segment's offset index and of its time index.
IndexSizes = Callable[[Segment], tuple[int, int]]


def group_segments(
    segments: Sequence[Segment],
    segment_bytes_max: int,
    index_bytes_max: int,
    index_sizes: IndexSizes,
) -> list[tuple[Segment, ...]]:
    """Runs whose sums stay within the limits, and whose offsets within the reach of an index."""
    groups: list[tuple[Segment, ...]] = []
    run: list[Segment] = []
    size = offset_bytes = time_bytes = 0
    for segment in segments:
        more_offsets, more_times = index_sizes(segment)
        fits = (
            run
            and size + segment.size <= segment_bytes_max
            and offset_bytes + more_offsets <= index_bytes_max
            and time_bytes + more_times <= index_bytes_max
            # An empty one may be far away: nothing of it needs an index.
            and (
                segment.size == 0
                or segment.end_offset - 1 - run[0].base_offset <= RELATIVE_OFFSET_MAX
            )
        )
        if run and not fits:
            groups.append(tuple(run))
            run, size, offset_bytes, time_bytes = [], 0, 0, 0
        run.append(segment)
        size += segment.size
        offset_bytes += more_offsets
        time_bytes += more_times
    if run:
        groups.append(tuple(run))
    return groups
