"""SIGTERM is held back for a block, then does what it would have done."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

from tasks.signals import hold_sigterm


class TerminatedError(BaseException):
    """What a runner's handler raises."""


@pytest.fixture(autouse=True)
def _raising_handler() -> Iterator[None]:
    def end(_number: int, _frame: FrameType | None) -> None:
        raise TerminatedError

    before = signal.signal(signal.SIGTERM, end)
    yield
    signal.signal(signal.SIGTERM, before)


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def hold(*steps: Callable[[], object], timeout_s: float = 5.0) -> None:
    with hold_sigterm(timeout_s):
        for step in steps:
            step()


def fail() -> None:
    raise ValueError


def wait_long() -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        time.sleep(0.01)


def test_block_ends_first() -> None:
    done: list[str] = []
    with pytest.raises(TerminatedError):
        hold(terminate, lambda: done.append("held"))
    assert done == ["held"]


def test_block_without_a_signal_leaves_everything_as_it_was() -> None:
    before, threads = signal.getsignal(signal.SIGTERM), threading.active_count()
    with hold_sigterm():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
    assert threading.active_count() == threads


def test_error_of_the_block_does_not_swallow_the_signal() -> None:
    with pytest.raises(TerminatedError):
        hold(terminate, fail)


def test_second_signal_is_not_held_back() -> None:
    done: list[str] = []
    with pytest.raises(TerminatedError):
        hold(terminate, terminate, lambda: done.append("too late"))
    assert done == []


def test_time_is_limited() -> None:
    started = time.monotonic()
    with pytest.raises(TerminatedError):
        hold(terminate, wait_long, timeout_s=0.1)
    assert 0.1 <= time.monotonic() - started < 5


def test_other_threads_hold_nothing_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen: list[object] = []

    def look() -> None:
        seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=hold, args=(look,))
    thread.start()
    thread.join()
    assert seen == [before]
