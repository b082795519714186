"""The command line in tests: in this process where that is enough, else in one of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from typing import Any

import pytest
from helpers.children import ROOT

from deployments.cli import main

Run = Callable[..., "Answer"]
_PROGRAM = "from deployments.cli import main; main()"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command said, and its exit code."""

    exit_code: int
    out: str
    err: str

    @property
    def value(self) -> dict[str, Any]:
        """Give the one JSON object on stdout; nothing else may stand on stdout or stderr."""
        value = json.loads(self.out)
        assert isinstance(value, dict)
        assert self.out.count("\n") == 1
        assert self.err == ""
        return value

    @property
    def error(self) -> dict[str, Any]:
        """Give the error of the JSON object."""
        error = self.value["error"]
        assert isinstance(error, dict)
        return error

    @property
    def run(self) -> dict[str, Any]:
        """Give the only run of the JSON object; its counters must add up."""
        (run,) = self.value["runs"]
        assert run["found"] == run["applied"] + sum(run["skipped"].values()) + run["failed"]
        return dict(run)

    @property
    def plan(self) -> dict[str, Any]:
        """Give the only plan of the JSON object."""
        (plan,) = self.value["plans"]
        return dict(plan)


def run_here(*words: object) -> Answer:
    """Run a command in this process."""
    out, err = StringIO(), StringIO()
    before = os.umask(0o077)
    try:
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
    finally:
        os.umask(before)
    return Answer(int(str(ended.value.code)), out.getvalue(), err.getvalue())


def run_process(*words: object, **environ: str) -> Answer:
    """Run a command in a process of its own, with more environment."""
    with start_process(*words, **environ) as process:
        out, err = process.communicate()
    return Answer(process.returncode, out, err)


def start_process(*words: object, **environ: str) -> subprocess.Popen[str]:
    """Start a command in a process of its own."""
    return subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", _PROGRAM, *map(str, words)],
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
