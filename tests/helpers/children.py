"""Child processes of tests: scripts of tests/children, started afresh, never forked."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

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
