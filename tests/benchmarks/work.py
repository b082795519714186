"""What an implementation is: something that gets ready, and then does its work once."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

from benchmarks.data import Seed

# Reads back what was decided, as pairs of reason and memory id; not measured.
Read = Callable[[], Iterable[tuple[str, str]]]
# Does the work, measured.
Work = Callable[[], Read]
# Gets ready from a seed, not measured, and cleans up afterwards.
Implementation = Callable[[Seed], AbstractContextManager[Work]]
