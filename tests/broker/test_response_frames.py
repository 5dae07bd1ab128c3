"""Frames of responses, from chunks of any sizes."""

import random

import pytest

from penstock.broker.links.response_frames import (
    LARGE_BYTES,
    RESPONSE_BYTES_MAX,
    ResponseFrames,
)
from penstock.wire.primitives import Malformed


def framed(*contents: bytes) -> bytes:
    return b"".join(len(each).to_bytes(4) + each for each in contents)


def feed(frames: ResponseFrames, data: bytes, sizes: list[int]) -> list[bytes]:
    """Give data in chunks of these sizes, the last one again and again."""
    found = []
    while data:
        size = sizes.pop(0) if len(sizes) > 1 else sizes[0]
        room = frames.room
        if room is None:
            found += [bytes(each) for each in frames.received(memoryview(data[:size]))]
            data = data[size:]
            continue
        size = min(size, len(room), len(data))
        room[:size] = data[:size]
        data = data[size:]
        frame = frames.filled(size)
        if frame is not None:
            found.append(bytes(frame))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_frames_do_not_depend_on_the_chunks(seed: int) -> None:
    chance = random.Random(seed)
    contents = [
        chance.randbytes(chance.choice((4, 30, 5_000, LARGE_BYTES, 3 * LARGE_BYTES)))
        for _ in range(8)
    ]
    sizes = [chance.choice((1, 3, 70, 9_000, LARGE_BYTES)) for _ in range(200)] + [50_000]
    assert feed(ResponseFrames(), framed(*contents), sizes) == contents


def begin_large(frames: ResponseFrames, fill: bytes) -> memoryview:
    """Return a large frame that came in two chunks."""
    content = fill * (2 * LARGE_BYTES)
    assert list(frames.received(memoryview(framed(content)[:100]))) == []
    room = frames.room
    assert room is not None
    room[:] = content[: len(room)]
    frame = frames.filled(len(room))
    assert isinstance(frame, memoryview)
    return frame


def test_a_large_frame_that_is_kept_is_not_overwritten() -> None:
    frames = ResponseFrames()
    kept = begin_large(frames, b"a")
    begin_large(frames, b"b")
    assert bytes(kept[:1]) == b"a"


def test_the_buffer_of_a_large_frame_serves_again() -> None:
    frames = ResponseFrames()
    begin_large(frames, b"a").release()
    buffer = frames._buffer
    begin_large(frames, b"b")
    assert frames._buffer is buffer


@pytest.mark.parametrize("size", [3, RESPONSE_BYTES_MAX + 1])
def test_a_size_of_no_response_is_malformed(size: int) -> None:
    with pytest.raises(Malformed):
        list(ResponseFrames().received(memoryview(size.to_bytes(4))))
