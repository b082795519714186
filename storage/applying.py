"""Apply one batch of a stored plan: compare-and-swap per row, receipts in the same transaction.

The caller holds the exclusive lock, so what is compared cannot change before it is written. Every
step is one set-based statement; the row counts of the writes must equal what was compared.
"""

from dataclasses import dataclass
from datetime import datetime

from storage.errors import ConflictError
from storage.gateway import StoreReader, StoreWriter
from storage.namespaces import step_sequence
from storage.queries import read_statements
from storage.removal import remove_marked

_SQL = read_statements("storage.sql", "applying")


@dataclass(frozen=True, slots=True)
class ApplyContext:
    """Whose batch it is: plan, run, namespace; the plan's `now` and wall time."""

    plan_id: str
    run_id: str
    namespace_id: int
    now: datetime
    clock: datetime

    def owner(self) -> dict[str, object]:
        """Parameters of statements about the namespace."""
        return {"namespace_id": self.namespace_id}

    def names(self) -> dict[str, object]:
        """Parameters of statements about the plan and the run."""
        return {"plan_id": self.plan_id, "run_id": self.run_id}


@dataclass(frozen=True, slots=True)
class NextBatch:
    """What comes next in a plan: rows of one reason, all with one action."""

    reason: str
    action: str


def find_next(reader: StoreReader, context: ApplyContext) -> NextBatch | None:
    """Find the reason of the first decision that this run has not dealt with."""
    rows = reader.rows(_SQL["next_reason"], context.names())
    return NextBatch(*rows[0]) if rows else None


def apply_batch(
    writer: StoreWriter,
    context: ApplyContext,
    batch: NextBatch,
    *,
    size: int,
    allowance: int | None,
) -> int:
    """Apply the next `size` decisions of one reason in this transaction; give how many there were.

    Args:
        writer: The open transaction; its lease has been checked.
        context: Plan, run, namespace and clocks.
        batch: What `find_next` found.
        size: The most decisions to deal with.
        allowance: How many rows the cap may still remove; None where no cap is meant.

    Raises:
        ConflictError: A write touched another number of rows than were compared.
    """
    judged: dict[str, object] = {"reason": batch.reason, "size": size, "allowance": allowance}
    writer.execute(_SQL["judge_batch"], {**context.owner(), **context.names(), **judged})
    found, applied = writer.rows(_SQL["count_batch"])[0]
    if applied:
        write = _tombstone if batch.action == "tombstone" else _remove
        write(writer, context, applied)
        step_sequence(writer, context.namespace_id)
    writer.execute(_SQL["record_outcomes"], context.names())
    return int(found)


def record_failure(writer: StoreWriter, context: ApplyContext, error: str) -> None:
    """Record that writing the next decision failed; `error` is the class of the error only."""
    writer.execute(_SQL["record_failure"], {**context.names(), "error": error})


def _tombstone(writer: StoreWriter, context: ApplyContext, applied: int) -> None:
    owner = context.owner()
    _require(applied, writer.execute(_SQL["keep_tombstoned"]))
    _require(applied, writer.execute(_SQL["tombstone_batch"], {**owner, "now": context.now}))
    receipt = {**owner, **context.names(), "now": context.now, "clock": context.clock}
    _require(applied, writer.execute(_SQL["insert_tombstone_receipts"], receipt))


def _remove(writer: StoreWriter, context: ApplyContext, applied: int) -> None:
    owner = context.owner()
    plan: dict[str, object] = {"plan_id": context.plan_id}
    writer.execute(_SQL["collect_removed"], {**owner, **plan})
    while writer.execute(_SQL["keep_superseded"], owner):
        pass
    receipt = {**owner, **context.names(), "clock": context.clock}
    _require(applied, writer.execute(_SQL["insert_removal_receipts"], receipt))
    if remove_marked(writer, context.namespace_id, now=context.now):
        writer.execute(_SQL["move_decisions"], plan)


def _require(expected: int, found: int) -> None:
    if found != expected:
        message = f"a batch compared {expected} rows and wrote {found}"
        raise ConflictError(message, expected=expected, found=found)
