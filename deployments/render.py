"""How results look on a terminal; figures come from the results, nothing is computed here."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Column
from rich.text import Text

from deployments.render_pairs import render_pairs
from deployments.tables import make_table
from storage.instants import format_instant
from storage.models import format_namespace
from tasks.importing import ImportReport
from tasks.report import RunResult

_ID_CELLS = 36  # a UUID stays whole; longer ids are folded

_STYLES = {
    "applied": "green",
    "unchanged": "green",
    "planned": "cyan",
    "partial": "yellow",
    "skipped_busy": "yellow",
    "refused": "red",
    "failed": "red",
    "abandoned": "red",
}


def render_status(console: Console, status: Mapping[str, Any]) -> None:
    """Print the lifecycle counters, the index and the last run of each job."""
    counts = status["memories"]
    table = make_table("memories", Column("count", justify="right"))
    for name, count in counts.items():
        if name != "total":
            table.add_row(name, str(count))
    table.add_section()
    table.add_row("total", str(counts["total"]), style="bold")
    console.print(table)
    index = status["index"]
    console.print(
        f"index: {index['embedded']} of {index['active']} active memories are served "
        f"({index['coverage']:.1%}), {index['stale']} with earlier content, "
        f"{index['failed']} failed"
    )
    jobs = make_table("job", "last outcome", "last success")
    for job, state in status["jobs"].items():
        jobs.add_row(job, _styled(state["last_outcome"]), _when(state["last_success"]))
    console.print(jobs)


def render_import(console: Console, report: ImportReport, *, shown: int = 20) -> None:
    """Print what became of an imported file, with the first rejects and warnings."""
    console.print(
        f"read {report.read}: imported {report.imported}, unchanged {report.unchanged}, "
        f"suppressed {report.suppressed}, rejected {report.rejected}"
    )
    if report.is_refused:
        console.print("nothing was imported: --strict refuses the whole file", style="red")
    for title, lines in (("rejected", report.rejects), ("note", report.warnings)):
        if not lines:
            continue
        table = make_table(title, "field", "reason")
        for line in lines[:shown]:
            table.add_row(str(line.record), Text(line.field), Text(line.reason))
        console.print(table)
        if len(lines) > shown:
            console.print(f"… and {len(lines) - shown} more (all of them with --json)")


def render_plan(console: Console, plan: Mapping[str, Any], *, shown: int) -> None:
    """Print a plan: what would happen, why, and the command that applies it."""
    total, visible = plan["found"], plan["visible"]
    head = f"{plan['job']} {plan['plan_id']}"
    console.print(Text(head, style="bold"))
    console.print(
        f"namespace {format_namespace(plan['namespace'])}, now {format_instant(plan['now'])}"
    )
    reasons = ", ".join(f"{reason} {count}" for reason, count in plan["reasons"].items())
    carried = f", carrying {plan['carried']} superseded ancestors" if plan["carried"] else ""
    console.print(
        f"would {_verb(plan)} {total} memories ({reasons}){carried}; {visible} are visible"
        if total
        else f"nothing to do; {visible} memories are visible"
    )
    for warning in plan["warnings"][:shown]:
        console.print(f"warning: {warning}", style="yellow")
    if total:
        _render_decisions(console, plan["decisions"][:shown])
        if total > shown:
            console.print(f"… and {total - shown} more (memtend show {plan['plan_id']} --rows 0)")
    render_pairs(console, plan.get("pairs", ()), shown=shown)
    kept = {name: count for name, count in plan["counters"].items() if count}
    console.print("counters: " + ", ".join(f"{name} {count}" for name, count in kept.items()))
    if any(decision.get("outcome") is None for decision in plan["decisions"]):
        console.print(f"apply it: memtend run {plan['job']} --plan {plan['plan_id']}")


def _verb(plan: Mapping[str, Any]) -> str:
    return "merge" if "pairs" in plan else "remove"


def _render_decisions(console: Console, decisions: Sequence[Mapping[str, Any]]) -> None:
    has_outcome = any("outcome" in decision for decision in decisions)
    table = make_table(_ids(decisions), "reason", "action", "rev", "why")
    if has_outcome:
        table.add_column("outcome")
    for decision in decisions:
        cells = [
            Text(decision["id"]),
            decision["reason"],
            decision["action"],
            str(decision["expected_revision"]),
            Text(explain_why(decision)),
        ]
        if has_outcome:
            cells.append(_styled(decision.get("outcome")))
        table.add_row(*cells)
    console.print(table)


def explain_why(facts: Mapping[str, Any]) -> str:
    """Say in one line why a memory is in a plan, with its figures."""
    age = f"{facts['age_days']:.1f} d since {facts['age_clock']}" if facts.get("age_clock") else ""
    reason = facts.get("reason") or facts.get("verdict")
    if reason == "stale":
        low = f"importance {facts['importance']:.3g} < {facts['min_importance_to_keep']:g}"
        text = f"{low}, {age} > {facts['max_age_days']} d"
    elif reason == "over_cap":
        terms = f"{facts['importance_term']:.4f} + {facts['recency_term']:.4f}"
        text = f"rank {facts['rank']}, relevance {facts['relevance']:.4f} = {terms}, {age}"
    elif reason == "cold":
        terms = f"time {facts['time_term']:.4f} + access {facts['access_term']:.4f}"
        score = f"score {facts['score']:.4f} < {facts['threshold']:g} ({terms})"
        text = f"{score}, {age}, {_read(facts)}"
    elif reason == "expired":
        text = f"expired at {facts['expires_at']}" + (", pinned" if facts.get("is_pinned") else "")
    elif reason == "purge":
        text = (
            f"tombstoned {facts['tombstoned_days']:.1f} d ago, "
            f"kept for {facts['hard_delete_after_days']} d"
        )
    else:
        text = explain_merge(facts) or age
    if facts.get("carries"):
        text += f", carries {', '.join(facts['carries'])}"
    if facts.get("clock_anomaly"):
        text += ", clock anomaly"
    return text


def explain_merge(facts: Mapping[str, Any]) -> str:
    """Say in one line what a memory is merged into; nothing for other decisions."""
    if "canonical_id" not in facts:
        return ""
    tokens = f", {facts['shared']} of {facts['union']} tokens" if "shared" in facts else ""
    return f"into {facts['canonical_id']}{tokens}"


def _read(facts: Mapping[str, Any]) -> str:
    days = facts.get("days_since_access")
    return "never read" if days is None else f"last read {days:.1f} d ago"


def render_verdicts(console: Console, rows: Sequence[Mapping[str, Any]], *, shown: int) -> None:
    """Print the verdict of every memory, kept ones included."""
    table = make_table(
        _ids(rows[:shown]), "verdict", "score", "age (d)", "clock", "days until cold", "kept by"
    )
    for row in rows[:shown]:
        score = row.get("score", row.get("relevance"))
        table.add_row(
            Text(row["id"]),
            row["verdict"],
            _number(score, 4),
            _number(row.get("age_days"), 1),
            row.get("age_clock") or "",
            _number(row.get("days_until_cold"), 1),
            ", ".join(row.get("protections") or []),
        )
    console.print(table)
    if len(rows) > shown:
        console.print(f"… and {len(rows) - shown} more (all of them with --json)")


def render_results(console: Console, results: Sequence[RunResult]) -> None:
    """Print how runs ended, and what a person can do about a refusal."""
    table = make_table(_name("run"), "namespace", "outcome", "figures")
    for result in results:
        end = result.end
        name = Text(format_namespace(result.namespace))
        figures = _figures(end.found, end.applied, end.skipped, end.failed)
        table.add_row(result.run_id, name, _styled(end.outcome), figures)
    console.print(table)
    for result in results:
        plan_id, error = result.end.plan_id, result.error
        if error is not None:
            console.print(f"{result.end.outcome}: {error['message']}", style="red")
        if result.end.outcome == "refused" and plan_id is not None:
            console.print(f"look at it: memtend show {plan_id}")
            console.print(f"apply it all the same: memtend run {result.job} --confirm {plan_id}")


def render_runs(console: Console, runs: Sequence[Mapping[str, Any]]) -> None:
    """Print the history of runs, newest first."""
    is_several = len({format_namespace(run["namespace"]) for run in runs}) > 1
    table = make_table("started", _name("run"), "job", "mode", "outcome", "figures")
    if is_several:
        table.add_column("namespace")
    for run in runs:
        figures = _figures(run["found"], run["applied"], run["skipped"], run["failed"])
        started, outcome = _when(run["started_at"]), _styled(run["outcome"])
        cells = [started, run["run_id"], run["job"], run["mode"], outcome, figures]
        if is_several:
            cells.append(Text(format_namespace(run["namespace"])))
        table.add_row(*cells)
    console.print(table)
    for run in runs:
        if run["error"]:
            console.print(f"{run['run_id']}: {run['error']}", style="red")


def render_hits(console: Console, hits: Sequence[Mapping[str, Any]]) -> None:
    """Print what was recalled, best first."""
    if not hits:
        console.print("nothing fits")
        return
    table = make_table(_ids(hits), "score", "channel", "content")
    for hit in hits:
        table.add_row(
            Text(hit["id"]), _number(hit["score"], 3), hit["channel"], Text(hit["content"])
        )
    console.print(table)


def _figures(found: int, applied: int, skipped: Mapping[str, int], failed: int) -> str:
    parts = {"applied": applied, **skipped, "failed": failed}
    shown = [f"{name} {count}" for name, count in parts.items() if count]
    return f"found {found}" + (f": {', '.join(shown)}" if shown else "")


def _name(title: str) -> Column:
    return Column(title, no_wrap=True)


def _ids(rows: Sequence[Mapping[str, Any]]) -> Column:
    longest = max((cell_len(row["id"]) for row in rows), default=0)
    width = max(len("memory"), min(longest, _ID_CELLS))
    return Column("memory", width=width, overflow="fold")


def render_diff(console: Console, diff: Mapping[str, Any], *, shown: int) -> None:
    """Print what changed since a plan was made."""
    states = ", ".join(f"{state} {count}" for state, count in diff["states"].items()) or "empty"
    console.print(f"{diff['job']} {diff['plan_id']}: {states}")
    changes = diff["changes"]
    if changes:
        table = make_table(_ids(changes[:shown]), "reason", "state", "changed facts")
        for row in changes[:shown]:
            table.add_row(Text(row["id"]), row["reason"], row["state"], ", ".join(row["changes"]))
        console.print(table)
        if len(changes) > shown:
            console.print(f"… and {len(changes) - shown} more (all of them with --json)")
    for title, name in (("newly selected", "added"), ("no longer selected", "dropped")):
        ids = diff[name]
        if ids:
            more = f" … and {len(ids) - shown} more" if len(ids) > shown else ""
            console.print(f"{title}: {', '.join(ids[:shown])}{more}")


def _styled(outcome: str | None) -> Text:
    return Text(outcome or "never", style=_STYLES.get(outcome or "", ""))


def _when(instant: datetime | None) -> str:
    return "never" if instant is None else instant.strftime("%m-%d %H:%M:%S")


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"
