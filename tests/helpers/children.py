"""Child processes of tests: scripts of tests/children, started afresh, never forked."""

import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import TypeVar

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
# Without compiled modules each start costs a second of imports.
ENVIRON = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}", "PYTHONDONTWRITEBYTECODE": ""}


@dataclass(frozen=True, slots=True)
class Child:
    """A running script: it says lines on stdout and takes the end of its stdin as a signal."""

    process: subprocess.Popen[str]

    def hear(self) -> str:
        """Wait for the next line; it is empty when the child has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def hear_all(self) -> list[str]:
        """Wait for the end of the child and give the lines that it said until then."""
        assert self.process.stdout is not None
        lines = self.process.stdout.read().splitlines()
        self.process.wait()
        return lines

    def signal(self) -> None:
        """Close the child's stdin: what that means is the script's business."""
        assert self.process.stdin is not None
        self.process.stdin.close()


@contextmanager
def start_child(script: str, *arguments: object, **environ: str) -> Iterator[Child]:
    """Run a script with more environment; it is killed when the block ends."""
    command = [sys.executable, str(ROOT / f"tests/children/{script}.py"), *map(str, arguments)]
    with subprocess.Popen(  # noqa: S603 - our own scripts
        command,
        cwd=ROOT,
        env=os.environ | ENVIRON | environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Child(process)
        finally:
            process.kill()


def start_ahead(started: Iterator[T], ahead: int = 2) -> Iterator[T]:
    """Give what is started, in order; the next ones are started before they are asked for."""
    waiting = deque(islice(started, ahead))
    while waiting:
        yield waiting.popleft()
        waiting.extend(islice(started, 1))


def kill_at_work(child: Child, moments: Random, *, longest_s: float, most_batches: int = 5) -> None:
    """Let a child work, and kill it some batches and a random time later: anywhere."""
    assert child.hear() == "ready"
    child.signal()
    for _ in range(moments.randint(0, most_batches)):
        child.hear()
    time.sleep(moments.uniform(0, longest_s))
    child.process.kill()
    child.hear_all()
