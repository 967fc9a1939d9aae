"""When a process that died is restarted: pure rules, no clock.

Invariants: the delay grows with every death in a row, up to `longest_delay`; once a process has been ready
for `healthy_after` seconds, its count starts over. Never gives up: a process is restarted for ever, and only
a start without its log is abandoned (`supervisor.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """How patient the supervisor is. Times in seconds."""

    first_delay: float = 0.5
    factor: float = 2.0
    longest_delay: float = 60.0
    healthy_after: float = 30.0
    # Deaths in a row after which a process counts as broken, no longer as starting.
    attempts: int = 5
    # How long a process may not answer before it is killed and restarted.
    stuck_seconds: float = 120.0

    def delay(self, deaths_in_a_row: int) -> float:
        """How long to wait after that many deaths in a row."""
        delay = self.first_delay
        for _ in range(deaths_in_a_row - 1):
            # Stops at the limit, so that a process dying for weeks overflows nothing.
            delay = min(delay * self.factor, self.longest_delay)
        return min(delay, self.longest_delay)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeathRecord:
    """How often a process has died: in a row, and in total."""

    in_a_row: int = 0
    ever: int = 0

    def after_death(self, policy: RestartPolicy, *, ready_for: float) -> DeathRecord:
        """The record after one more death, following `ready_for` seconds of being ready (0: never)."""
        healthy = ready_for >= policy.healthy_after
        return replace(self, in_a_row=1 if healthy else self.in_a_row + 1, ever=self.ever + 1)
