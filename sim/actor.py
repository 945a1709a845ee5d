"""Whatever can stop, stand still or die on its own: a process, or a child of one. Each has clocks of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.config import DAY_S, ClockConfig
from tickwork.testing import VirtualClock

if TYPE_CHECKING:
    from sim.world import World


_UPTIME_S = 2.0 * DAY_S  # a monotonic clock counts from the host's start


class ProcessClock:
    """A process's clocks: those of the host, shifted, and running a little fast or slow."""

    def __init__(self, host: VirtualClock, config: ClockConfig) -> None:
        self._host = host
        self.rate = config.rate
        self._offset_s = config.offset_s

    def wall_us(self) -> int:
        return self._host.wall_us() + int(self._offset_s * 1e6)

    def steady_us(self) -> int:
        return self._host.steady_us()

    def boot_id(self) -> str:
        return self._host.boot_id()

    def monotonic(self) -> float:
        return _UPTIME_S + self._offset_s + self._host.steady_us() * self.rate / 1e6


class Actor:
    """Takes part in a world under a name."""

    def __init__(self, world: World, name: str, clock: ClockConfig) -> None:
        self.world = world
        self.name = name
        self.clock = ProcessClock(world.clock, clock)
        self.dead = False
        self.frozen_until = 0
        self.standing_still = 0  # how many of its calls take long just now
        self.disturbed_at = -1  # when something last went wrong for it

    def freeze(self, until_us: int, *, children: bool) -> None:
        """Stand still until then."""
        self.frozen_until = max(self.frozen_until, until_us)
        self.disturb(self.frozen_until)

    def disturb(self, at_us: int) -> None:
        """Note that a fault touched it: until then, what it promises only while it is well need not hold."""
        self.disturbed_at = max(self.disturbed_at, at_us)

    def well_since(self, at_us: int) -> bool:
        """Whether nothing has gone wrong for it, or with the clocks of all, since then."""
        return not self.standing_still and max(self.disturbed_at, self.world.stepped_at_us) < at_us

    def crash(self) -> None:
        """End at once; whatever was in memory is gone."""
        self.dead = True

    def drain(self, *, now: bool) -> None:
        """Be asked to end in good order."""
