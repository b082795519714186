"""The janitor: what a store collects and no memory needs goes, step by step, each on its own.

Orphan vectors, versions of the vector tables, old rows about runs, holes in the files. A step looks
first and does nothing where nothing is due, so a second run makes no commit anywhere. A step that
fails is told in the report and stops no other; only a lost lease ends the run. The lease of the
janitor keeps every refresh, rebuild and erasure out. Source: DESIGN 3, 5, 10.21; spec/refresh.md
R9, R59, R65-R68.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Annotated, Any

from pydantic import Field, StrictBool, StrictInt

from storage import Store
from storage.errors import FenceLostError, MaintenanceError
from storage.gateway import DATABASE_FILE
from storage.history import read_history_of_store, settle_history
from storage.index_errors import IndexUnreadableError, RefreshError
from storage.leases import Lease
from storage.namespaces import StoredNamespace, list_namespaces
from storage.runs import Outcome, RunEnd
from storage.vectors import TableFigures, VectorStore
from tasks.policies import Policy
from tasks.refresh.job import configure_partition, find_embedder
from tasks.report import Performed
from tasks.requests import Clock, JobRequest, OnBatch
from tasks.upkeep import STEPS, Found, Limits, Step, Work

KeptDays = Annotated[StrictInt, Field(ge=1, le=36_500)]
Ratio = Annotated[float, Field(gt=0, le=1, strict=True)]


class JanitorPolicy(Policy):
    """From when on something that no memory needs may go, and when a rewrite pays."""

    grace_hours: Annotated[float, Field(ge=1, le=8_760, strict=True)] = Field(
        default=1.0, description="Vectors and versions that went out of use are kept, in hours"
    )
    collect_generations: StrictBool = Field(
        default=False, description="Collect the vectors of embedders that nobody is served from"
    )
    generation_days: Annotated[StrictInt, Field(ge=7, le=36_500)] = Field(
        default=7, description="An embedder must have been out of use for this time, in days"
    )
    receipt_days: KeptDays = Field(
        default=400, description="Receipts of refreshes and of applied decisions are kept, in days"
    )
    plan_days: KeptDays = Field(
        default=90, description="Plans that were never applied are kept for this time, in days"
    )
    run_days: KeptDays = Field(default=400, description="Rows of runs are kept, in days")
    optimize_after_commits: Annotated[StrictInt, Field(ge=1, le=10_000)] = Field(
        default=100, description="A vector table of more fragments is compacted"
    )
    compact_terms_when_dead_ratio: Ratio = Field(
        default=0.2, description="The term index is sorted anew when this share of it is dead"
    )
    compact_terms_min_dead: Annotated[StrictInt, Field(ge=1)] = Field(
        default=10_000, description="... and at least this many postings of it"
    )
    compact_when_free_ratio: Ratio = Field(
        default=0.25, description="The database file is rewritten when this share of it is free"
    )
    compact_min_free_mib: Annotated[StrictInt, Field(ge=0, le=1_048_576)] = Field(
        default=16, description="... and at least this much, in MiB"
    )


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one step found and did; `error` is the code of what went wrong."""

    name: str
    found: int
    done: int = 0
    figures: dict[str, int] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the parts of a store are; own tables that cannot be opened are only counted."""

    database_bytes: int
    tables: tuple[TableFigures, ...]
    unreadable: int

    def describe(self) -> dict[str, int]:
        """Give the figures of all tables together."""
        names = ("rows", "versions", "fragments", "file_count", "byte_count")
        summed = {name: sum(getattr(one, name) for one in self.tables) for name in names}
        return {
            "database_bytes": self.database_bytes,
            "tables": len(self.tables),
            "unreadable": self.unreadable,
            **summed,
        }


@dataclass(frozen=True, slots=True)
class JanitorReport:
    """What is due, or what was done, with the sizes before and after; nothing of any memory."""

    steps: tuple[StepReport, ...]
    before: Sizes
    after: Sizes | None = None

    @property
    def error(self) -> str | None:
        """The code of the first step that failed, or of a table that cannot be read."""
        codes = [step.error for step in self.steps if step.error is not None]
        if not codes and (self.after or self.before).unreadable:
            return IndexUnreadableError.code
        return codes[0] if codes else None

    @property
    def end(self) -> RunEnd:
        """The end of a run with this report; a plan's has no sizes after."""
        found, done = (sum(getattr(s, name) for s in self.steps) for name in ("found", "done"))
        figures = {
            step.name: step.found if self.after is None else step.done for step in self.steps
        }
        for name, sizes in (("before", self.before), ("after", self.after)):
            figures |= {f"{k}_{name}": v for k, v in sizes.describe().items()} if sizes else {}
        if self.after is None:
            kept = {"dry_run": found} if found else {}
            asked: Outcome = "planned" if found else "unchanged"
            return RunEnd(asked, code=self.error, found=found, skipped=kept, figures=figures)
        outcome: Outcome = "applied" if done else "unchanged"
        if self.error is not None:
            outcome = "partial" if done else "failed"
        return RunEnd(
            outcome,
            code=self.error,
            found=found,
            applied=done,
            failed=found - done,
            figures=figures,
        )


def plan_janitor(
    store: Store,
    policy: JanitorPolicy,
    *,
    clock: Clock,
    configured: frozenset[str] = frozenset(),
) -> JanitorReport:
    """Report what is due; nothing is written.

    Args:
        store: The store to look at.
        policy: From when on something is due.
        clock: Wall time.
        configured: The serving generations (digests) that hosts are set up with: they are kept.
    """
    work = _begin(store, policy, clock, configured)
    before = _measure(work)
    return JanitorReport(tuple(_run(step, work) for step in STEPS), before)


def sweep_up(
    store: Store,
    policy: JanitorPolicy,
    *,
    clock: Clock,
    lease: Lease,
    configured: frozenset[str] = frozenset(),
) -> JanitorReport:
    """Do what is due, each step on its own, and report it.

    Raises:
        FenceLostError: Another run has taken the lease over; nothing more was written.
    """
    work = replace(_begin(store, policy, clock, configured), lease=lease)
    _settle(work)
    before = _measure(work)
    steps = tuple(_run(step, work) for step in STEPS)
    return JanitorReport(steps, before, _measure(work))


def _begin(store: Store, policy: JanitorPolicy, clock: Clock, configured: frozenset[str]) -> Work:
    now = clock()

    def since(days: int) -> datetime:
        return now - timedelta(days=days)

    grace = timedelta(hours=policy.grace_hours)
    receipts_since = since(policy.receipt_days)
    limits = Limits(
        grace=grace,
        before=now - grace,
        generations_before=since(policy.generation_days),
        collects_generations=policy.collect_generations,
        configured=configured,
        optimize_after=policy.optimize_after_commits,
        kept_since={
            "receipts": receipts_since,
            "publications": receipts_since,
            "apply_receipts": receipts_since,
            "plans": since(policy.plan_days),
            "runs": since(policy.run_days),
        },
        dead_terms_ratio=policy.compact_terms_when_dead_ratio,
        dead_terms=policy.compact_terms_min_dead,
        free_ratio=policy.compact_when_free_ratio,
        free_bytes=policy.compact_min_free_mib * 2**20,
    )
    return Work(store, VectorStore(store.path), limits, clock)


def _settle(work: Work) -> None:
    """Begin a new history before the tables of another database file are looked at."""
    with work.store.read() as reader:
        is_current = read_history_of_store(reader, work.store.path).is_current
    if not is_current and work.vectors.tables():
        with work.store.write() as writer:
            work.keep(writer)
            settle_history(writer, work.store.path, clock=work.clock())


def _measure(work: Work) -> Sizes:
    """Measure the store; a table that cannot be read is left out of all that follows."""
    with work.store.read() as reader:
        own = work.sort_tables(reader).own
    tables, unreadable = [], 0
    for name in work.vectors.tables():
        try:
            tables.append(work.vectors.figures(name))
        except RefreshError:
            work.unreadable.add(name)
            unreadable += name in own
    database_bytes = (work.store.path / DATABASE_FILE).stat().st_size
    return Sizes(database_bytes, tuple(tables), unreadable)


def _run(step: Step, work: Work) -> StepReport:
    found = Found(0, {})
    try:
        found = step.find(work)
        done = step.act(work) if found.due and work.lease is not None else 0
    except FenceLostError:
        raise
    except MaintenanceError as error:
        return StepReport(step.name, found.due, figures=found.figures, error=error.code)
    except Exception as error:  # noqa: BLE001 - a step stops no other; only its class is told
        code = f"internal:{type(error).__name__}"
        return StepReport(step.name, found.due, figures=found.figures, error=code)
    count = found.due if work.lease is None else done
    return StepReport(step.name, count, done, found.figures)


def perform_janitor(
    request: JobRequest, _target: StoredNamespace, lease: Lease, _on_batch: OnBatch | None = None
) -> Performed:
    """Sweep up behind all namespaces, under a lease that the caller gives back."""
    configured = _find_configured(request)
    report = sweep_up(
        request.handle(),
        _read_policy(request),
        clock=request.clock,
        lease=lease,
        configured=configured,
    )
    return Performed(report.end)


def preview_janitor(request: JobRequest, _target: StoredNamespace) -> dict[str, Any]:
    """Tell what is due, by step; nothing is written."""
    configured = _find_configured(request)
    report = plan_janitor(
        request.handle(), _read_policy(request), clock=request.clock, configured=configured
    )
    due = {step.name: step.found for step in report.steps if step.found}
    return {"found": sum(due.values()), "reasons": due, "decisions": []}


def _read_policy(request: JobRequest) -> JanitorPolicy:
    return JanitorPolicy.model_validate(request.policy.model_dump())


def _find_configured(request: JobRequest) -> frozenset[str]:
    """Find the generations that the request's embedder fills; they are never collected.

    Raises:
        ConfigurationError: Generations are to be collected, and no embedder is chosen.
        EmbedderSetupError: It cannot be loaded, so nobody knows which generations are in use.
    """
    if not _read_policy(request).collect_generations:
        return frozenset()
    choice, embedder = find_embedder(request)
    with request.handle().read() as reader:
        history = read_history_of_store(reader, request.handle().path)
        targets = list_namespaces(reader)
    return frozenset(
        configure_partition(target, history, choice.name, embedder).generation for target in targets
    )
