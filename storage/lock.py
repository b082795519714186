"""The sidecar lock of a store: flock on a fresh descriptor, with a turnstile before it.

It is released by the kernel when the process dies, and separates threads as well as processes.
Without the turnstile overlapping readers keep a writer out for ever (PLATFORM D10a), and if readers
left it before they hold the lock, one writer in a loop would keep them out.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from storage.errors import StoreBusyError

LOCK_FILE = "memory.lock"
TURNSTILE_FILE = "turnstile.lock"
_FIRST_POLL_S = 0.001
_LONGEST_POLL_S = 0.02


@contextmanager
def hold_lock(directory: Path, *, exclusive: bool, wait_s: float) -> Iterator[None]:
    """Hold the lock of the store in `directory`, shared or exclusive.

    Never nest it in one call chain: the second call would wait for the first.

    Raises:
        StoreBusyError: The lock was not free within `wait_s` seconds.
    """
    started = time.monotonic()
    deadline = started + wait_s
    mode = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    turnstile = _open_lock(directory / TURNSTILE_FILE)
    try:
        _acquire(turnstile, mode, started=started, deadline=deadline)
        lock = _open_lock(directory / LOCK_FILE)
        try:
            _acquire(lock, mode, started=started, deadline=deadline)
            fcntl.flock(turnstile, fcntl.LOCK_UN)
            yield
        finally:
            os.close(lock)
    finally:
        os.close(turnstile)


def _open_lock(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _acquire(descriptor: int, mode: int, *, started: float, deadline: float) -> None:
    pause = _FIRST_POLL_S
    while True:
        try:
            fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise StoreBusyError(waited_s=time.monotonic() - started) from None
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_POLL_S)
        else:
            return
