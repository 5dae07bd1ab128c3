"""High watermarks of a log that does not lead."""


def restart_watermark(checkpoint: int, start_offset: int, end_offset: int) -> int:
    """Return the high watermark after a restart: that of the checkpoint, within the log. Records
    beyond it may never have been committed."""
    return max(start_offset, min(checkpoint, end_offset))


def follower_watermark(leader_watermark: int, start_offset: int, end_offset: int) -> int:
    """Return the high watermark of a follower: that of the leader, within the own log. The
    high watermark may fall: a new leader may know less than the one before."""
    return max(start_offset, min(leader_watermark, end_offset))
