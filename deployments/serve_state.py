"""What `memtend serve` keeps beside a store: Prefect's home, two locks, and where its server is.

A lock is held by the process that it is about, so it is never stale: the kernel gives it back
however that process ends. The server inherits the descriptor of its own.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

STATE_FOLDER = "prefect"
_SERVE_LOCK = "serve.lock"
_SERVER_LOCK = "server.lock"
_SERVER_FILE = "server.json"


class KnownServer(NamedTuple):
    """A Prefect server that this store started."""

    pid: int
    url: str


class ServeState:
    """The folder of one store."""

    def __init__(self, store: Path) -> None:
        """Make the folder; only the owner may look into it."""
        self.folder = store / STATE_FOLDER
        self.folder.mkdir(mode=0o700, exist_ok=True)

    @contextmanager
    def hold_serve(self) -> Iterator[bool]:
        """Be the one process that serves this store, or not: another one is."""
        descriptor = self._open(_SERVE_LOCK)
        try:
            yield _try_lock(descriptor)
        finally:
            os.close(descriptor)

    def lock_server(self) -> int:
        """Take the server's lock for a server that is about to start; it inherits it.

        Raises:
            BlockingIOError: A server lives.
        """
        descriptor = self._open(_SERVER_LOCK)
        if not _try_lock(descriptor):
            os.close(descriptor)
            raise BlockingIOError
        # It names the server before: its pid may be anybody's by now.
        (self.folder / _SERVER_FILE).unlink(missing_ok=True)
        return descriptor

    def note_server(self, server: KnownServer) -> None:
        """Note where the server is."""
        path = self.folder / _SERVER_FILE
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(server._asdict()), encoding="utf-8")
        fresh.replace(path)

    def find_server(self) -> KnownServer | None:
        """Find the server that this store started, if it lives."""
        descriptor = self._open(_SERVER_LOCK)
        try:
            if _try_lock(descriptor):
                return None
            text = (self.folder / _SERVER_FILE).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        finally:
            os.close(descriptor)
        return KnownServer(**json.loads(text))

    def _open(self, name: str) -> int:
        return os.open(self.folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
