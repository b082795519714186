"""The clock and the random ids of this process; nothing below this layer has its own."""

import uuid
from datetime import UTC, datetime


def read_clock() -> datetime:
    """Read wall time."""
    return datetime.now(UTC)


def new_run_id() -> str:
    """Make a fresh id for a run."""
    return f"run_{uuid.uuid4().hex[:12]}"


def new_event_id() -> str:
    """Make a fresh id for an access event."""
    return f"use_{uuid.uuid4().hex}"
