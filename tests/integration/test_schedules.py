"""When jobs are due: by the shipped schedules or by chosen ones, as status and health show it."""

import json
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from helpers.children import ROOT
from helpers.cli import run_here

from deployments.serve_state import STATE_FOLDER
from storage import Store
from storage.errors import AdmissionError
from storage.exports import read_export
from storage.instants import parse_instant
from storage.models import DEFAULT_NAMESPACE
from storage.namespaces import ensure_namespace
from tasks.providers.weights import EmbedderSetupError
from tasks.rules.slots import Interval
from tasks.schedules import (
    Cron,
    activate_intervals,
    list_schedules,
    list_timings,
    read_timings,
)

NIGHT = datetime(2026, 9, 30, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "after", "expected"),
    [
        pytest.param("30 1 * * *", "2026-09-30T01:29:59.999999Z", "2026-09-30T01:30Z", id="day"),
        pytest.param("30 1 * * *", "2026-09-30T01:30Z", "2026-10-01T01:30Z", id="strictly-after"),
        pytest.param("5,35 * * * *", "2026-09-30T10:05:30Z", "2026-09-30T10:35Z", id="list"),
        pytest.param("20 * * * *", "2026-12-31T23:20Z", "2027-01-01T00:20Z", id="year"),
        pytest.param("0 3 29 2 *", "2026-03-01T00:00Z", "2028-02-29T03:00Z", id="leap-day"),
    ],
)
def test_next_slot_is_the_first_one_after(cron: str, after: str, expected: str) -> None:
    assert next(Cron(cron).list_slots(parse_instant(after))) == parse_instant(expected)


@pytest.mark.parametrize(
    ("after", "slots"),
    [
        pytest.param(
            "2026-10-24T00:00Z",
            ["2026-10-24T00:30Z", "2026-10-25T00:30Z", "2026-10-26T01:30Z"],
            id="V17",
        ),
        pytest.param(
            "2027-03-27T00:00Z",
            ["2027-03-27T01:30Z", "2027-03-28T01:30Z", "2027-03-29T00:30Z"],
            id="V18",
        ),
        pytest.param(
            "2026-10-25T01:00Z", ["2026-10-26T01:30Z"], id="V17-within-the-hour-that-comes-twice"
        ),
        pytest.param(
            "2027-03-28T01:10Z", ["2027-03-28T01:30Z"], id="V18-within-the-hour-that-never-comes"
        ),
    ],
)
def test_local_slots_come_once_a_day(after: str, slots: list[str]) -> None:
    berlin = Cron("30 2 * * *", "Europe/Berlin")
    found = list(islice(berlin.list_slots(parse_instant(after)), len(slots)))
    assert found == [parse_instant(slot) for slot in slots]


@pytest.mark.parametrize(
    ("cron", "zone"),
    [
        pytest.param(Cron("30 2 * * *", "Europe/Berlin"), "Europe/Berlin", id="daily"),
        pytest.param(Cron("30 2 * * 1", "Europe/Berlin"), "Europe/Berlin", id="weekly"),
        pytest.param(Cron("30 * * * *", "Europe/Berlin"), None, id="hourly"),
        pytest.param(Cron("30 2,14 * * *", "Europe/Berlin"), None, id="twice-a-day"),
        pytest.param(Cron("30 2 * * *"), None, id="utc"),
    ],
)
def test_date_is_the_key_of_a_slot_that_comes_once_a_local_day(
    cron: Cron, zone: str | None
) -> None:
    """R6: an hourly schedule would run once a day."""
    assert cron.day_zone == zone


@pytest.mark.parametrize(
    ("said", "field"),
    [
        pytest.param("no json", "MEMTEND_SCHEDULES", id="no-json"),
        pytest.param("[]", "MEMTEND_SCHEDULES", id="no-object"),
        pytest.param('{"compact": {"interval_s": 60}}', "MEMTEND_SCHEDULES", id="V80-no-job"),
        pytest.param('{"erase": {"interval_s": 60}}', "MEMTEND_SCHEDULES", id="R3-never"),
        pytest.param(
            '{"prune": {"interval_s": 60}, "prune": {"interval_s": 90}}',
            "MEMTEND_SCHEDULES",
            id="V80-twice",
        ),
        pytest.param('{"prune": "daily"}', "MEMTEND_SCHEDULES.prune", id="no-schedule"),
        pytest.param('{"prune": {}}', "MEMTEND_SCHEDULES.prune", id="empty"),
        pytest.param(
            '{"prune": {"cron": "0 3 * * *", "interval_s": 60}}',
            "MEMTEND_SCHEDULES.prune",
            id="both",
        ),
        *(
            pytest.param(
                f'{{"prune": {{"interval_s": {interval}}}}}',
                "MEMTEND_SCHEDULES.prune.interval_s",
                id=f"V78-{interval}",
            )
            for interval in ("0", "0.5", "31536001", "true", '"60"')
        ),
        pytest.param(
            '{"prune": {"interval_s": 60, "offset_s": 60}}',
            "MEMTEND_SCHEDULES.prune.offset_s",
            id="offset",
        ),
        *(
            pytest.param(
                json.dumps({"prune": {"cron": cron}}), "MEMTEND_SCHEDULES.prune.cron", id=f"{cron}"
            )
            for cron in ("@daily", "0 25 * * *", "0 0 31 2 *", "0 0 0 * * *", 5)
        ),
        pytest.param(
            '{"prune": {"cron": "0 3 * * *", "zone": "Nowhere/City"}}',
            "MEMTEND_SCHEDULES.prune.zone",
            id="zone",
        ),
    ],
)
def test_fault_in_the_setting_is_named(said: str, field: str) -> None:
    with pytest.raises(AdmissionError) as caught:
        read_timings(said)
    assert caught.value.field == field


def test_fault_in_a_setting_starts_no_server(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMTEND_SCHEDULES", '{"prune": {"interval_s": 0}}')
    words = ("--store", store.path, "--json", "serve", "--port", 0)
    answer = run_here(*words)
    assert (answer.exit_code, answer.error["field"]) == (1, "MEMTEND_SCHEDULES.prune.interval_s")
    monkeypatch.setenv("MEMTEND_SCHEDULES", "")
    monkeypatch.setenv("MEMTEND_EMBEDDER", "nonsense")  # V81
    answer = run_here(*words)
    assert (answer.exit_code, answer.error["type"]) == (1, EmbedderSetupError.code)
    assert not (store.path / STATE_FOLDER).exists()


INTERVAL = '{"refresh": {"interval_s": 900, "offset_s": 60}, "prune": {"cron": "0 5 * * *"}}'


def list_activations(store: Store) -> list[tuple[object, ...]]:
    with store.read() as reader:
        return reader.rows("SELECT job, namespace_id, interval_s, activated_at FROM activations")


def test_intervals_are_activated_once_and_forgotten_with_the_schedule(store: Store) -> None:
    """R5; and a job that is due by a cron again is not overdue by its old interval."""
    timings = list_timings(read_timings(INTERVAL))
    activate_intervals(store, timings, clock=NIGHT)
    activate_intervals(store, timings, clock=NIGHT + timedelta(days=1))
    ((job, _, *known),) = list_activations(store)
    assert (job, known) == ("refresh", [900, NIGHT])
    activate_intervals(store, list_timings({}), clock=NIGHT)
    assert list_activations(store) == []


def test_job_of_the_whole_store_is_activated_where_it_runs(store: Store) -> None:
    place = DEFAULT_NAMESPACE.model_copy(update={"scope": "other"})
    with store.write() as writer:
        ensure_namespace(writer, place)
    every = Interval(900)
    timings = {"health": every, "refresh": every, "maintain": every, "maintain_fleet": every}
    activate_intervals(store, timings, clock=NIGHT)
    counts = Counter(str(row[0]) for row in list_activations(store))
    assert counts == {"health": 1, "refresh": 2, "maintain": 2}


def test_chosen_schedules_say_when_jobs_are_due(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prune begins switched on where somebody chose its schedule."""
    run_here("--store", store.path, "init")
    monkeypatch.setenv("MEMTEND_SCHEDULES", INTERVAL)
    monkeypatch.setenv("MEMTEND_EMBEDDER", "hash")
    run_here("--store", store.path, "run", "health")
    table = read_export(store.path, "status")
    assert table is not None
    (exported,) = table.column("status").to_pylist()
    told = run_here("--store", store.path, "--json", "status").value["jobs"]
    for jobs in (told, json.loads(exported)["jobs"]):
        due = {name: jobs[name]["next_due"] for name in ("refresh", "prune", "sweep", "restore")}
        assert parse_instant(due["refresh"]).minute in {1, 16, 31, 46}
        assert parse_instant(due["prune"]).strftime("%H:%M") in {"01:30", "05:00"}
        assert parse_instant(due["sweep"]).strftime("%H:%M") == "01:30"
        assert due["restore"] is None


def test_steps_of_maintain_are_due_with_it() -> None:
    """A schedule that begins switched off tells nothing; a job without one is never due."""
    due = {job: one.next_after(NIGHT) for job, one in list_schedules(None).items()}
    night = {job: instant.strftime("%H:%M") for job, instant in due.items() if instant is not None}
    assert night == {
        "maintain": "01:30",
        "sweep": "01:30",
        "prune": "01:30",
        "consolidate": "01:30",
        "refresh": "00:20",
        "janitor": "03:50",
        "health": "00:05",
    }


def test_status_does_not_wait_for_prefect(store: Store) -> None:
    run_here("--store", store.path, "init")
    program = (
        "import sys; from deployments.cli import app; "
        f"app(['--store', {str(store.path)!r}, '--json', 'status'], standalone_mode=False); "
        "sys.exit('prefect' in sys.modules)"
    )
    command = [sys.executable, "-c", program]
    said = subprocess.run(  # noqa: S603 - our own code
        command, cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert json.loads(said.stdout)["jobs"]["sweep"]["next_due"] is not None


def test_status_says_when_jobs_are_due(store: Store) -> None:
    run_here("--store", store.path, "init")
    before = datetime.now(UTC)
    jobs = run_here("--store", store.path, "--json", "status").value["jobs"]
    assert jobs["restore"]["next_due"] is None
    due = {name: parse_instant(job["next_due"]) for name, job in jobs.items() if job["next_due"]}
    assert {"sweep", "prune", "consolidate", "refresh", "janitor", "health"} <= due.keys()
    assert all(before < instant for instant in due.values())
    assert due["sweep"].strftime("%H:%M") == "01:30"


def test_paused_job_is_not_due(store: Store) -> None:
    run_here("--store", store.path, "init")
    run_here("--store", store.path, "pause", "sweep")
    jobs = run_here("--store", store.path, "--json", "status").value["jobs"]
    assert jobs["sweep"]["next_due"] is None
    assert jobs["prune"]["next_due"] is not None
