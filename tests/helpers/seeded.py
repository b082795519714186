"""A store with a month of history: every job has run, some more than once, and health last."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from helpers.imports import Importer, edges, record
from helpers.runs import request_job
from helpers.vectors import Json, copy_store

from storage import Store
from storage.instants import format_instant
from storage.runs import Mode
from tasks.health.policy import HealthPolicy
from tasks.inline import run_job
from tasks.policies import ConsolidatePolicy, Policy, PrunePolicy, RefreshPolicy, SweepPolicy
from tasks.providers.registry import load_embedder
from tasks.requests import EmbedderChoice

TEAM = {"tenant": "default", "principal": "team", "scope": "default"}
_KINDS = ("episodic", "episodic", "episodic", "semantic", "procedural")
# As many as have no common factor, so that no text comes twice.
_WHO = ("Ada", "Ben", "Chloe", "Dan", "Esra", "Finn", "Gita")
_WHAT = (
    *("billing export", "search index", "login page", "mobile build", "audit report"),
    *("price list", "support queue", "style guide", "sales deck", "backup plan", "status page"),
)
_WHERE = (
    *("Aachen", "Berlin", "Cairo", "Delhi", "Essen", "Faro", "Gdansk", "Hanoi", "Izmir"),
    *("Jena", "Kyiv", "Lagos", "Malmo"),
)
_SERIES = (
    "Retry the nightly ledger export {} times before the on-call engineer is told about it.",
    "The staging cluster keeps {} replicas of the session cache in the northern region.",
)
_COPIES = (
    "The quarterly audit needs the signed export of all invoices from the billing archive.",
    "Rotate the signing key of the release pipeline before each major version is published.",
    "Customers in the pilot group see the new search page after they have logged in twice.",
)
_CONFLICTS = (
    ("The importer must validate every line.", "The importer must not validate every line."),
    ("Deploys to production happen on Monday.", "Deploys to production happen on Friday."),
)


def seed_store(path: Path, base: datetime) -> Store:
    """Make a store as it is after a month of upkeep that ends at `base`."""
    store = copy_store(path)
    importer = Importer(store, path.with_suffix(".jsonl"), base)
    importer(*_list_aged(base, 110, first_age=22.0), *_list_alike(base), *_list_marked(base))
    importer(*(line | {"namespace": TEAM} for line in _list_aged(base, 40, first_age=25.0)))
    _work(store, base - timedelta(days=21), "refresh", "health")
    _work(store, base - timedelta(days=14), "sweep", "health")
    _work(store, base - timedelta(days=7), "consolidate", "refresh", "health")
    importer(*_list_aged(base, 18, first_age=1.5, step=0.1, first_text=200))
    _work(store, base - timedelta(days=1), "prune", "refresh", "health")
    importer(*_list_aged(base, 6, first_age=0.2, step=0.05, first_text=300))
    _work(store, base - timedelta(minutes=10), "sweep", "prune", "consolidate", mode="plan")
    _work(store, base, "health")
    return store


def _work(store: Store, now: datetime, *jobs: str, mode: Mode = "apply") -> None:
    policies: dict[str, Policy] = {
        "consolidate": ConsolidatePolicy(),
        "health": HealthPolicy(max_refresh_backlog=5),
        "prune": PrunePolicy(max_age_days=60),
        "refresh": RefreshPolicy(),
        "sweep": SweepPolicy(),
    }
    embedder = EmbedderChoice("hash", lambda: load_embedder("hash"))
    for number, job in enumerate(jobs, start=1):
        at = now - timedelta(minutes=10 * (len(jobs) - number))
        asked = {"policy": policies[job], "now": at, "mode": mode, "embedder": embedder}
        for result in run_job(request_job(store, job=job, **asked)):
            assert result.error is None, result.error


def _list_aged(
    base: datetime, count: int, *, first_age: float, step: float = 0.6, first_text: int = 0
) -> Iterator[Json]:
    """Yield memories of growing age; every figure that a rule reads differs between them."""
    for number in range(count):
        created = base - timedelta(days=first_age + number * step)
        uses = number * 7 % 11 if number % 3 == 0 else 0
        used = created + timedelta(days=uses / 2)
        text = first_text + number
        content = f"{_WHO[text % 7]} presented the {_WHAT[text % 11]} in {_WHERE[text % 13]}."
        yield record(
            f"note-{text:03}",
            content=content,
            kind=_KINDS[number * 3 % 5],
            importance=(1 + number * 37 % 90) / 100,
            salience=0.5 + number * 13 % 14 / 10,
            created_at=format_instant(created),
            access_count=uses,
        ) | ({"last_accessed_at": format_instant(min(used, base))} if uses else {})


def _list_alike(base: datetime) -> Iterator[Json]:
    """Yield copies, series that differ in a number, and contradictions."""
    created = {"created_at": format_instant(base - timedelta(days=24)), "kind": "semantic"}
    texts = [text for copy in _COPIES for text in (copy, copy.upper(), copy.replace("the", "this"))]
    texts += [text.format(number) for text in _SERIES for number in (2, 3, 5)]
    texts += [text for pair in _CONFLICTS for text in pair]
    for number, text in enumerate(texts):
        yield record(f"alike-{number:02}", content=text, importance=0.8) | created


def _list_marked(base: datetime) -> Iterator[Json]:
    """Yield a lineage, pinned memories, and some that expire sooner or later."""
    created = {"created_at": format_instant(base - timedelta(days=90))}
    yield record("plan-old", content="The launch is in spring.", status="superseded") | created
    yield (
        record("plan-new", content="The launch is in autumn.")
        | created
        | edges(("supersedes", "plan-old"))
    )
    for number in range(4):
        yield record(f"pinned-{number}", content=f"House rule {number}.", pinned=True) | created
    for number, days in enumerate((-20, -18, -2, -0.5, 3, 12, 25, 60)):
        expires = {"expires_at": format_instant(base + timedelta(days=days))}
        text = f"Voucher {number} is valid."
        yield record(f"expires-{number}", content=text, pinned=number == 3) | created | expires
