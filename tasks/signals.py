"""SIGTERM held back while a run is between its commit point and its receipt.

Source: spec/maintenance.md R43. A second one, SIGKILL, and the end of the time are not held back:
the next run settles what they leave.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from storage.errors import AdmissionError

LONGEST_SHUTDOWN_S = 30.0
SHUTDOWN_S = 5.0


def check_shutdown_timeout(timeout_s: float) -> float:
    """Give a shutdown timeout back if it is one (spec/maintenance.md R2).

    Raises:
        AdmissionError: Not more than 0, or more than 30 seconds.
    """
    if not 0 < timeout_s <= LONGEST_SHUTDOWN_S:
        raise AdmissionError("shutdown_timeout_s", f"must be over 0, at most {LONGEST_SHUTDOWN_S}")
    return timeout_s


@contextmanager
def hold_sigterm(timeout_s: float = SHUTDOWN_S) -> Iterator[None]:
    """Let the block end before SIGTERM does what it would have done, within the timeout.

    Outside of the main thread nothing is held back: only there Python takes signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[threading.Timer] = []
    before = signal.getsignal(signal.SIGTERM) or signal.SIG_DFL

    def give_back() -> None:
        signal.signal(signal.SIGTERM, before)
        held.pop().cancel()
        signal.raise_signal(signal.SIGTERM)

    def hold(_signal: int, _frame: FrameType | None) -> None:
        if held:
            give_back()
            return
        timer = threading.Timer(timeout_s, os.kill, (os.getpid(), signal.SIGTERM))
        timer.daemon = True
        held.append(timer)
        timer.start()

    signal.signal(signal.SIGTERM, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        if held:
            give_back()
