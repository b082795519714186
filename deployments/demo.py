"""The tour: a store from shipped sample memories, plans, applied runs, and what became of each."""

import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from deployments import render
from deployments.console import Output
from deployments.desk import EXIT_DONE, Desk
from flows.edge import choose_embedder
from storage import create_store
from storage.models import DEFAULT_NAMESPACE
from storage.settings import Settings
from tasks.explain import show_plan, show_runs
from tasks.feedback import apply_feedback
from tasks.importing import import_file
from tasks.inline import run_job
from tasks.limits import SafetyLimits
from tasks.recall import SemanticSource, describe_hit, parse_recall_policy, recall_memories
from tasks.report import RunResult, describe_result
from tasks.status import show_status

# The sample's ages are counted back from here, so that every tour shows the same figures.
_NOW = datetime(2026, 9, 30, tzinfo=UTC)
_SHOWN = 8
# Shares no word with the memory that answers it.
_QUESTION = "return to the earlier build after trouble"


def run_demo(output: Output, keep: Path | None) -> int:
    """Take the tour in a store of its own, which is removed afterwards unless `keep` names it."""
    with tempfile.TemporaryDirectory(prefix="memtend-demo-") as scratch:
        tour = _Tour(output, keep or Path(scratch) / "store")
        tour.fill()
        tour.sweep()
        tour.prune()
        tour.refresh()
        tour.close()
    if keep is not None:
        output.note(f"the store stays in {keep}: memtend --store {keep} status")
    return EXIT_DONE


class _Tour:
    """The steps of the tour; each prints what a command of the same name would print."""

    def __init__(self, output: Output, path: Path) -> None:
        self._output = output
        self._desk = Desk(Settings(store=path), output)
        self._steps: list[dict[str, Any]] = []

    def fill(self) -> None:
        """Create the store and import the sample."""
        self._say("memtend init; memtend import sample.jsonl")
        store, _ = create_store(self._desk.settings.store, clock=_NOW)
        with as_file(files("deployments").joinpath("data", "sample.jsonl")) as sample:
            report = import_file(store, sample, clock=_NOW)
        self._show(lambda: render.render_import(self._output.out, report))
        self._status()

    def sweep(self) -> None:
        """Plan a sweep, tell the store that one memory is worth keeping, and apply the plan."""
        self._say("memtend plan sweep")
        plan_id = self._plan("sweep", {})
        self._say("memtend feedback meeting-vendor helpful")
        done = apply_feedback(self._desk.open(), "meeting-vendor", "helpful", at=_NOW)
        self._note(
            f"meeting-vendor: salience {done.salience:g}; it changed after the plan was made"
        )
        self._say(f"memtend run sweep --plan {plan_id}")
        self._run("sweep", plan_id=plan_id)
        self._say("memtend run sweep")
        self._note("the second run judges what changed again and has nothing to do")
        self._run("sweep")

    def prune(self) -> None:
        """Prune over the safety limit, and confirm it."""
        values = {"max_age_days": 60, "min_importance_to_keep": 0.65}
        self._say("memtend run prune --set max_age_days=60 --set min_importance_to_keep=0.65")
        limits = SafetyLimits(max_fraction=0.1)
        refused = self._run("prune", values=values, limits=limits)
        plan_id = str(refused[0].end.plan_id)
        self._say(f"memtend run prune --confirm {plan_id}")
        self._run("prune", confirm_plan_id=plan_id)

    def refresh(self) -> None:
        """Make the index and ask for a memory in other words than its own."""
        self._say("memtend run refresh")
        self._run("refresh")
        self._say(f'memtend recall "{_QUESTION}" --limit 1')
        source = SemanticSource(load=choose_embedder(self._desk.settings.embedder).load)
        policy = parse_recall_policy({"max_results": 1})
        found = recall_memories(
            self._desk.open(), DEFAULT_NAMESPACE, _QUESTION, policy=policy, now=_NOW, source=source
        )
        hits = [describe_hit(hit) for hit in found.hits]
        self._steps.append({"hits": hits, "semantic": found.semantic})
        self._show(lambda: render.render_hits(self._output.out, hits))

    def close(self) -> None:
        """Show the state of the store and the history of runs."""
        self._say("memtend status; memtend runs")
        self._status()
        runs = show_runs(self._desk.open(), limit=20)
        self._show(lambda: render.render_runs(self._output.out, runs))
        if self._output.is_json:
            self._output.emit({"steps": self._steps, "runs": runs}, lambda _console: None)

    def _plan(self, job: str, values: dict[str, object]) -> str:
        request = self._desk.request(job, mode="plan", now=_NOW, values=values)
        plan_id = str(run_job(request)[0].end.plan_id)
        plan = show_plan(self._desk.open(), plan_id)
        self._show(lambda: render.render_plan(self._output.out, plan, shown=_SHOWN))
        return plan_id

    def _run(self, job: str, **options: Any) -> Sequence[RunResult]:  # noqa: ANN401 - as Desk.request
        results = run_job(self._desk.request(job, mode="apply", now=_NOW, **options))
        self._steps += [describe_result(result) for result in results]
        self._show(lambda: render.render_results(self._output.out, results))
        return results

    def _status(self) -> None:
        status = show_status(self._desk.open(), now=_NOW)
        self._show(lambda: render.render_status(self._output.out, status))

    def _say(self, command: str) -> None:
        self._show(lambda: self._output.out.print(f"\n$ {command}", style="bold cyan"))

    def _note(self, text: str) -> None:
        self._show(lambda: self._output.out.print(text))

    def _show(self, write: Callable[[], None]) -> None:
        if not self._output.is_json:
            write()
