"""How the health of a store looks on a terminal: memories, index, jobs, forecast, cost, files."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Column

from deployments.render import render_status
from deployments.tables import make_table

_MIB = 2**20


def render_health(console: Console, status: Mapping[str, Any]) -> None:
    """Print a snapshot: what it counts, how the jobs are, and which thresholds are broken."""
    if status["age_s"]:
        console.print(
            f"a writer holds the store: as of {status['age_s']:.0f} s ago", style="yellow"
        )
    render_status(console, status)
    _render_work(console, status)
    _render_forecast(console, status["forecast"])
    _render_figures(console, status)
    _render_breaches(console, status)


def _render_work(console: Console, status: Mapping[str, Any]) -> None:
    table = make_table("job", Column("backlog", justify="right"), "next due", "last error", "")
    for name, job in status["jobs"].items():
        table.add_row(
            name,
            "" if job["backlog"] is None else str(job["backlog"]),
            _when(job["next_due"]),
            job["last_error"] or "",
            _say_state(job),
            style="" if job["worker_alive"] else "red",
        )
    console.print(table)
    word = "degraded" if status["is_degraded"] else status["phase"]
    console.print(f"store is {word}", style="red" if status["is_degraded"] else "")


def _say_state(job: Mapping[str, Any]) -> str:
    states = {
        "is_paused": "paused",
        "run_in_progress": "running",
        "is_overdue": "overdue",
    }
    said = [word for name, word in states.items() if job[name]]
    if not job["worker_alive"] and not job["is_overdue"]:
        said.append("its process is gone")
    return ", ".join(said)


def _when(instant: datetime | None) -> str:
    return "" if instant is None else instant.strftime("%m-%d %H:%M")


def _render_forecast(console: Console, forecast: Mapping[str, Mapping[str, Any]]) -> None:
    names = ("cold", "expired", "purge")
    table = make_table("within", *(Column(name, justify="right") for name in names))
    for days, counts in forecast.items():
        table.add_row(f"{days} days", *(str(counts[name]) for name in names))
    console.print(table)


def _render_figures(console: Console, status: Mapping[str, Any]) -> None:
    index, cost, files = status["index"], status["cost"], status["files"]
    console.print(
        f"index: {index['pending']} pending, {index['retrying']} tried again, "
        f"{index['permanent']} permanent, {index['quarantined']} quarantined, "
        f"{index['departed']} departed"
    )
    console.print(
        f"cost of {cost['days']} days: {cost['runs']} refreshes embedded {cost['embedded']}, "
        f"reused {cost['reused']}, skipped {cost['skipped']}"
    )
    console.print(
        f"files: database {_size(files['database_bytes'])}, vectors "
        f"{_size(files['vector_bytes'])} in {files['vector_versions']} versions"
        f"{_say_growth(files['database_growth_mib'])}"
    )
    duplicates, anomalies = status["duplicates"], status["anomalies"]
    if duplicates["ratio"] is not None:
        console.print(f"duplicates: {duplicates['remaining']} left ({duplicates['ratio']:.1%})")
    told = [f"{count} {name.replace('_', ' ')}" for name, count in anomalies.items() if count]
    if told:
        console.print(f"anomalies: {', '.join(told)}", style="yellow")


def _size(byte_count: int) -> str:
    return f"{byte_count / _MIB:.1f} MiB"


def _say_growth(growth_mib: float | None) -> str:
    return "" if growth_mib is None else f"; {growth_mib:+.1f} MiB in a week"


def _render_breaches(console: Console, status: Mapping[str, Any]) -> None:
    for one in status["breaches"]:
        console.print(f"{one['name']}: {one['value']:g} ({one['threshold']:g})", style="red")
