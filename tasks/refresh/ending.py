"""How a refresh shows in its run row: outcome, counters that add up, the figures of its work."""

from storage.errors import MaintenanceError
from storage.runs import Outcome, RunEnd
from tasks.refresh.work import Refreshed, Work


def end_refreshed(work: Work, ended: Refreshed) -> RunEnd:
    """End a run that held: found = applied + skipped(by reason) + failed (DESIGN 10.22)."""
    counts = ended.counts
    figures = work.counters.describe()
    if ended.is_unchanged:
        skipped = {"unchanged": counts.active} if counts.active else {}
        return RunEnd(
            "unchanged", code=ended.reason, found=counts.active, skipped=skipped, figures=figures
        )
    outcome: Outcome = "partial" if counts.unpublished else "applied"
    served = counts.published - ended.affected
    skipped = {"served": served, "deferred": counts.deferred}
    return RunEnd(
        outcome,
        code=ended.reason,
        found=counts.active,
        applied=ended.affected,
        skipped={name: count for name, count in skipped.items() if count},
        failed=counts.unpublished,
        figures=figures,
    )


def end_failed(work: Work, error: BaseException) -> RunEnd:
    """End a run that did not hold; what it did is counted all the same."""
    figures = work.counters.describe()
    if isinstance(error, MaintenanceError):
        outcome: Outcome = "refused" if error.code == "invalid_configuration" else "failed"
        return RunEnd(outcome, code=error.code, error=str(error), figures=figures)
    code = "cancelled" if not isinstance(error, Exception) else f"internal:{type(error).__name__}"
    return RunEnd("failed", code=code, error=code, figures=figures)
