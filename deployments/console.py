"""The one writer of what people and programs see: tables, or one JSON object on stdout.

Progress and notes go to stderr. Stored text is printed without markup.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from storage.instants import format_instant


class Output:
    """Prints results of commands, either for people or as JSON."""

    def __init__(self, *, is_json: bool) -> None:
        """Choose the form once for the whole command."""
        self.is_json = is_json
        self.out = Console(
            highlight=False, markup=False, emoji=False, soft_wrap=not sys.stdout.isatty()
        )
        self.err = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)

    def emit(self, value: dict[str, Any], render: Callable[[Console], None]) -> None:
        """Print a result: `value` as JSON, or what `render` writes."""
        if self.is_json:
            sys.stdout.write(dump_json(value) + "\n")
        else:
            render(self.out)

    def fail(self, error: dict[str, object]) -> None:
        """Print an error that ended the command."""
        if self.is_json:
            sys.stdout.write(dump_json({"error": error}) + "\n")
        else:
            self.err.print(f"memtend: {error['message']}", style="red")

    def note(self, text: str) -> None:
        """Print one line for people on stderr."""
        if not self.is_json:
            self.err.print(text)

    @contextmanager
    def progress(self, title: str) -> Iterator[Callable[[int, int | None], None]]:
        """Show a progress bar on stderr, on a terminal only."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
        )
        is_shown = self.err.is_terminal and not self.is_json
        with Progress(*columns, console=self.err, disable=not is_shown, transient=True) as bar:
            task = bar.add_task(title, total=None)

            def advance(done: int, total: int | None) -> None:
                bar.update(task, completed=done, total=total)

            yield advance

    @contextmanager
    def counting(self, title: str) -> Iterator[Callable[[int], None]]:
        """Show progress of unknown length; told how much each batch was."""
        done = 0
        with self.progress(title) as advance:

            def count(batch: int) -> None:
                nonlocal done
                done += batch
                advance(done, None)

            yield count


def dump_json(value: object) -> str:
    """Encode a result; instants as RFC 3339 text."""
    return json.dumps(value, ensure_ascii=False, default=_encode)


def _encode(value: object) -> object:
    if isinstance(value, datetime):
        return format_instant(value)
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Path):
        return str(value)
    message = f"cannot encode {type(value).__name__}"
    raise TypeError(message)
