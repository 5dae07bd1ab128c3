"""How many more partitions this node can hold: each keeps a file open.

Asked before the controller promises them; what is promised counts until it is made.
"""

from collections.abc import Iterable

from penstock.errors import PolicyViolation
from penstock.world import World


class Room:
    def __init__(self, world: World) -> None:
        self._world = world
        self.promised = 0

    def promise(self, wanted: Iterable[tuple[str, int]]) -> tuple[int, dict[str, PolicyViolation]]:
        """Make room for (topic, partitions) as far as there is some: how many partitions it was
        made for, and the topics that do not fit. `kept` gives it back."""
        left = self._world.files_left() - self.promised
        promised = 0
        refused: dict[str, PolicyViolation] = {}
        for topic, partitions in wanted:
            if promised + partitions <= left or partitions <= 0:
                promised += max(0, partitions)
                continue
            refused[topic] = PolicyViolation(
                f"{partitions} more partitions need more files than this node may open "
                f"({max(0, left - promised)} are left). Raise its limit (ulimit -n) or make fewer "
                "partitions."
            )
        self.promised += promised
        return promised, refused

    def kept(self, promised: int) -> None:
        """They are made, or will not be: from now on they count as open files, or not at all."""
        self.promised -= promised
        assert self.promised >= 0, "no promise is kept twice"
