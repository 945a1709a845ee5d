"""Base class of simulated processes and child processes, which can pause, crash and stop, and have their own clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.config import DAY_S, ClockConfig
from tickwork.testing import VirtualClock

if TYPE_CHECKING:
    from sim.world import World


_UPTIME_S = 2.0 * DAY_S  # the value of the monotonic clock at the start, as if the host had booted before


class ProcessClock:
    """The clocks of a process: the host's clocks with an offset and a small rate error."""

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
    """A participant of a simulated world."""

    def __init__(self, world: World, name: str, clock: ClockConfig) -> None:
        self.world = world
        self.name = name
        self.clock = ProcessClock(world.clock, clock)
        self.dead = False
        self.frozen_until = 0
        self.standing_still = 0  # number of its calls that are blocked now
        self.disturbed_at = -1  # the time of the last fault that affected it

    def freeze(self, until_us: int, *, children: bool) -> None:
        """Pause until a time."""
        self.frozen_until = max(self.frozen_until, until_us)
        self.disturb(self.frozen_until)

    def disturb(self, at_us: int) -> None:
        """Record that a fault affects it until a time; guarantees for undisturbed processes do not apply until then."""
        self.disturbed_at = max(self.disturbed_at, at_us)

    def well_since(self, at_us: int) -> bool:
        """Return whether no fault and no step of the host's clock has affected it since a time."""
        return not self.standing_still and max(self.disturbed_at, self.world.stepped_at_us) < at_us

    def crash(self) -> None:
        """End at once and lose all memory."""
        self.dead = True

    def drain(self, *, now: bool) -> None:
        """Request an orderly shutdown."""
