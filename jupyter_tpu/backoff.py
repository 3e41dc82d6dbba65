"""How long to wait between attempts: pauses that grow.

This is arithmetic on seconds. It knows no clock, and the caller waits, since what else ends the
pause differs: a deadline, an event, what the other side asks for. In use:

    for pause in PAUSES:                      failures += 1
        if await attempt():                   retry_at = now + PAUSES.after(failures, random())
            break
        await asyncio.sleep(pause)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

#: Steps after which every pause is the longest; floats end after 1023 doublings.
_MOST_STEPS = 64


@dataclass(frozen=True)
class Backoff:
    """Pauses, each *factor* times the one before.

    Attributes
    ----------
    first, longest: seconds.
    factor: by how much they grow.
    jitter: the least and the greatest part of a pause that is waited, by chance; so that many who
        wait for the same thing don't ask in step.
    """

    first: float
    longest: float
    factor: float = 2.0
    jitter: tuple[float, float] = (1.0, 1.0)

    def after(self, failures: int, chance: float = 0.5) -> float:
        """The pause after so many failures in a row, from 1 on. *chance*: a random number from 0
        to 1, for the jitter.

        >>> [Backoff(2.0, 60.0).after(failures) for failures in (1, 2, 3, 100)]
        [2.0, 4.0, 8.0, 60.0]
        """
        steps = min(failures - 1, _MOST_STEPS)
        least, greatest = self.jitter
        part = least + (greatest - least) * chance
        return part * min(self.first * self.factor**steps, self.longest)

    def next(self, pause: float) -> float:
        """The pause that follows one of *pause* seconds, without jitter."""
        return min(max(self.first, pause * self.factor), self.longest)

    def __iter__(self) -> Iterator[float]:
        """All pauses, without jitter and without an end."""
        pause = self.first
        while True:
            yield pause
            pause = self.next(pause)


#: Between questions about something that takes seconds or minutes: quick first, then slower.
POLLING = Backoff(0.2, 5.0, factor=1.4)
