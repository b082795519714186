"""The command line: one JSON object or text for people, exit codes, errors that name the field."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from helpers.children import start_child
from helpers.cli import Answer, Run, run_here, run_process
from helpers.imports import Importer, record, write_lines
from helpers.rows import NOW
from helpers.runs import dump_tables
from helpers.vectors import copy_store

from storage import Store, open_store
from storage.leases import acquire_lease
from storage.models import DEFAULT_NAMESPACE
from storage.namespaces import ensure_namespace

AT = ("--now", "2026-09-30T00:00Z")
STATES = {"active", "candidate", "superseded", "conflicted", "expired_pending", "tombstoned"}
STATUS_KEYS = {
    *("taken_at", "age_s", "phase", "is_degraded", "is_healthy", "namespaces", "memories", "index"),
    *("duplicates", "anomalies", "forecast", "jobs", "work", "cost", "files", "breaches"),
}
IMPORT_KEYS = {
    *("format", "read", "imported", "unchanged", "suppressed", "rejected"),
    *("rejects", "warnings"),
}
VERBS: dict[str, tuple[tuple[object, ...], set[str]]] = {
    "init": (("init",), {"store", "migrations"}),
    "import": (("import", "FILE"), IMPORT_KEYS),
    "add": (("add", "some text"), {"memory"}),
    "status": (("status",), STATUS_KEYS),
    "feedback": (("feedback", "m1", "helpful"), {"feedback"}),
    "plan": (("plan", "sweep", *AT), {"plans"}),
    "run": (("run", "prune", *AT), {"runs"}),
    "runs": (("runs",), {"runs"}),
    "show": (("show", "PLAN"), {"plans"}),
    "diff": (("diff", "PLAN"), {"diffs"}),
}
FIELDS: dict[str, tuple[tuple[object, ...], str]] = {
    "job": (("plan", "tidy"), "job"),
    "policy": (("plan", "sweep", "--set", "cold=1"), "sweep.cold"),
    "policy-bound": (("run", "prune", "--set", "max_age_days=-1"), "prune.max_age_days"),
    "policy-nested": (
        ("plan", "sweep", "--set", "half_life_days.episodic=0"),
        "sweep.half_life_days.episodic",
    ),
    "set": (("plan", "sweep", "--set", "cold_threshold"), "--set"),
    "limit": (("run", "sweep", "--limit", "max_rows=-1"), "--limit max_rows"),
    "now": (("plan", "sweep", "--now", "soonish"), "--now"),
    "namespace-empty": (("plan", "sweep", "--namespace", ""), "--namespace"),
    "namespace-blank": (("run", "sweep", "--namespace", "t//s"), "--namespace"),
    "namespace-unknown": (("run", "sweep", "--namespace", "t/p/s"), "namespace"),
    "status-namespace": (("status", "--namespace", "t/p/s"), "namespace"),
    "format": (("import", "FILE", "--format", "csv"), "--format"),
    "file": (("import", "missing.jsonl"), "file"),
    "signal": (("feedback", "m1", "great"), "signal"),
    "importance": (("add", "text", "--importance", "7"), "importance"),
    "kind": (("add", "text", "--kind", "Semantic"), "kind"),
    "text": (("add", " "), "content"),
    "id": (("add", "text", "--id", ""), "id"),
    "tag": (("add", "text", "--tag", ""), "tags.0"),
    "metadata": (("add", "text", "--metadata", "keep"), "--metadata"),
    "expiry": (("add", "text", "--expires", "soon"), "expires_at"),
}
UNKNOWN = {
    "memory_not_found": ("feedback", "m9", "helpful"),
    "run_not_found": ("show", "plan_9"),
    "plan_not_found": ("diff", "plan_9"),
}
USAGE: dict[str, tuple[str, ...]] = {
    "verb": ("tidy",),
    "no-argument": ("feedback", "m1"),
    "too-many": ("runs", "extra"),
    "option": ("plan", "sweep", "--force"),
    "number": ("runs", "--rows", "many"),
    "negative-rows": ("runs", "--rows", "-1"),
    "not-UTF-8": ("show", "\udcff"),
}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Give an empty store."""
    return copy_store(tmp_path / "store")


@pytest.fixture
def run(store: Store) -> Run:
    """Give a function that runs a command on the store of the test."""
    return lambda *words: run_here("--store", store.path, *words)


@pytest.fixture(scope="module")
def filled_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Give a store with two old memories for the tests that do not depend on its state."""
    directory = tmp_path_factory.mktemp("filled")
    store = copy_store(directory / "store")
    Importer(store, directory / "lines.jsonl", NOW)(record("m1"), record("m2"))
    return store


@pytest.fixture(scope="module")
def run_filled(filled_store: Store) -> Run:
    """Give a function that runs a command on that store.

    The word PLAN stands for a plan's id, FILE for the file that was imported.
    """
    made = run_here("plan", "sweep", *AT, "--json", "--store", filled_store.path)

    def run_command(*words: object) -> Answer:
        known: dict[object, object] = {
            "PLAN": made.plan["plan_id"],
            "FILE": filled_store.path.parent / "lines.jsonl",
        }
        typed = (known.get(word, word) for word in words)
        return run_here("--store", filled_store.path, *typed)

    return run_command


@pytest.mark.parametrize("verb", VERBS)
def test_json_before_and_after_the_verb_prints_one_object(run_filled: Run, verb: str) -> None:
    words, keys = VERBS[verb]
    before, after = run_filled("--json", *words), run_filled(*words, "--json")
    assert before.value.keys() == after.value.keys() == keys
    assert before.exit_code == after.exit_code == 0


@pytest.mark.parametrize("verb", ["status", "runs", "show"])
def test_text_goes_to_stdout_and_is_no_json(run_filled: Run, verb: str) -> None:
    answer = run_filled(*VERBS[verb][0])
    assert (answer.exit_code, answer.err) == (0, "")
    assert answer.out.strip()
    assert not answer.out.startswith("{")


def test_import_tells_what_became_of_each_record(run: Run, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "f", record("a"), record("a"), record("b", importance=7), "{")
    answer = run("import", path, "--json")
    value = answer.value
    figures = [value[name] for name in ("read", "imported", "unchanged", "suppressed", "rejected")]
    assert (answer.exit_code, figures) == (0, [4, 1, 1, 0, 2])
    assert value["rejects"] == [
        {"record": 3, "field": "importance", "reason": "must be from 0 to 1"},
        {"record": 4, "field": "line", "reason": "not JSON"},
    ]


def test_strict_import_with_rejects_fails(run: Run, store: Store, tmp_path: Path) -> None:
    before = dump_tables(store)
    answer = run("import", write_lines(tmp_path / "f", record(), "{"), "--strict", "--json")
    assert (answer.exit_code, answer.value["imported"]) == (1, 0)
    assert answer.error["type"] == "import_rejected"
    assert [fault["record"] for fault in answer.value["rejects"]] == [2]
    assert dump_tables(store) == before


def test_import_into_a_namespace_written_with_escapes(run: Run, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "f", record("m1"))
    run("import", path, "--namespace", "a%2Fb/50%25/s")
    done = run("feedback", "m1", "helpful", "--json", "--namespace", "a%2Fb/50%25/s").value
    assert done["feedback"]["namespace"] == {"tenant": "a/b", "principal": "50%", "scope": "s"}


def test_status_counts_disjoint_states_and_names_the_jobs(run: Run, tmp_path: Path) -> None:
    run("import", write_lines(tmp_path / "f", record("m1"), record("m2", status="candidate")))
    run("run", "sweep", *AT)
    value = run("status", *AT, "--json").value
    assert value["memories"].keys() == STATES | {"total"}
    assert value["memories"]["total"] == sum(value["memories"][name] for name in STATES) == 2
    assert value["jobs"]["sweep"]["last_outcome"] == "applied"
    never = {"last_outcome": None, "last_success": None}
    assert value["jobs"]["prune"].items() >= never.items()
    assert value["jobs"]["restore"].items() >= (never | {"next_due": None}).items()


def test_add_stores_every_option(run: Run, store: Store) -> None:
    options = ("--id", "m1", "--kind", "working", "--importance", "0.75", "--pin")
    lists = ("--tag", "a", "--tag", "b", "--metadata", "k=v=w", "--expires", "2030-01-01")
    assert run("add", "text", *options, *lists, "--json").value == {
        "memory": {"id": "m1", "revision": 1}
    }
    with store.read() as reader:
        (row,) = reader.records("SELECT kind, importance, pinned, tags, metadata FROM memories")
    assert row == {
        "kind": "working",
        "importance": 0.75,
        "pinned": True,
        "tags": '["a","b"]',
        "metadata": '{"k":"v=w"}',
    }


def test_init_again_changes_nothing(run: Run, store: Store) -> None:
    before = dump_tables(store)
    assert run("init", "--json").value == {"store": str(store.path), "migrations": []}
    assert dump_tables(store) == before


@pytest.mark.parametrize("case", FIELDS)
def test_refusal_names_the_field(run_filled: Run, case: str) -> None:
    words, field = FIELDS[case]
    answer = run_filled(*words, "--json")
    exit_code = 2 if field.startswith("--") else 1  # a malformed option is wrong usage
    assert (answer.exit_code, answer.error["type"]) == (exit_code, "invalid_input")
    assert answer.error["field"] == field
    assert answer.error["message"].startswith(f"{field}: ")


@pytest.mark.parametrize("code", UNKNOWN)
def test_unknown_id_is_named(run_filled: Run, code: str) -> None:
    words = UNKNOWN[code]
    answer = run_filled(*words, "--json")
    assert (answer.exit_code, answer.error["type"]) == (1, code)
    assert words[1] in answer.error["message"]


@pytest.mark.parametrize("case", USAGE)
def test_wrong_usage_exits_with_2(run_filled: Run, case: str) -> None:
    answer = run_filled(*USAGE[case], "--json")
    assert (answer.exit_code, answer.error["type"]) == (2, "usage")


def test_wrong_setting_is_named_and_exits_with_2(
    run_filled: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMTEND_LOCK_WAIT_S", "soon")
    answer = run_filled("status", "--json")
    assert (answer.exit_code, answer.error["message"]) == (2, "settings: lock_wait_s")


def test_error_for_people_is_one_line_on_stderr(run_filled: Run) -> None:
    answer = run_filled("show", "plan_9")
    assert (answer.exit_code, answer.out) == (1, "")
    assert answer.err == "memtend: no plan and no run 'plan_9'\n"


def test_no_words_at_all_show_the_help() -> None:
    answer = run_here()
    assert (answer.exit_code, answer.err) == (2, "")
    assert "plan" in answer.out


def test_missing_store_is_named_with_what_to_do(tmp_path: Path) -> None:
    answer = run_here("status", "--store", tmp_path / "none", "--json")
    assert (answer.exit_code, answer.error["type"]) == (1, "store_not_found")
    assert "memtend init" in answer.error["message"]


def test_fault_of_the_file_system_is_an_error_of_one_line(tmp_path: Path, run_filled: Run) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    answer = run_here("init", "--store", tmp_path / "file", "--json")
    assert answer.exit_code == 1
    assert "File exists" in answer.error["message"]
    answer = run_filled("import", "x" * 300)
    assert (answer.exit_code, answer.err) == (1, f"memtend: {'x' * 300}: File name too long\n")


def test_store_comes_from_the_environment(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMTEND_STORE", str(store.path))
    assert run_here("init", "--json").value["store"] == str(store.path)


@pytest.mark.parametrize(
    ("door", "words"),
    [("write", ("run", "sweep")), ("read", ("add", "text"))],
)
def test_store_in_use_exits_with_3(
    run_filled: Run,
    filled_store: Store,
    monkeypatch: pytest.MonkeyPatch,
    door: str,
    words: tuple[str, ...],
) -> None:
    monkeypatch.setenv("MEMTEND_LOCK_WAIT_S", "0.3")
    with start_child("hold_store", filled_store.path, door) as holder:
        assert holder.hear() == "held"
        answer = run_filled(*words, "--json")
    assert (answer.exit_code, answer.error["type"]) == (3, "store_locked")
    assert answer.error["waited_s"] >= 0.3


@pytest.mark.parametrize("verb", ["plan", "run"])
def test_namespace_at_work_exits_with_3(run: Run, store: Store, verb: str) -> None:
    with store.write() as writer:
        owner = ensure_namespace(writer, DEFAULT_NAMESPACE)
        acquire_lease(writer, owner, "prune", holder="another", clock=datetime.now(UTC))
    answer = run(verb, "sweep", "--json")
    assert (answer.exit_code, answer.error["type"]) == (3, "lease_held")
    assert answer.error["held_by"] == "prune"
    assert [one["outcome"] for one in run("runs", "--json").value["runs"]] == ["skipped_busy"]


def test_process_exits_with_the_code_and_one_line(store: Store) -> None:
    refused = run_process("plan", "sweep", "--namespace", "", MEMTEND_STORE=str(store.path))
    assert (refused.exit_code, refused.out) == (2, "")
    assert refused.err == "memtend: --namespace: a namespace is tenant/principal/scope\n"


def test_demo_ends_well_and_leaves_the_store_where_it_was_told(tmp_path: Path) -> None:
    answer = run_here("demo", "--keep", tmp_path / "kept", "--json")
    assert answer.exit_code == 0
    *runs, recalled = answer.value["steps"]
    outcomes = [step["outcome"] for step in runs]
    assert outcomes == ["applied", "unchanged", "refused", "applied", "applied"]
    assert recalled["semantic"] == "used"
    assert [hit["id"] for hit in recalled["hits"]] == ["deploy-rollback"]
    with open_store(tmp_path / "kept").read() as reader:
        assert reader.rows("SELECT count(*) FROM apply_receipts")[0][0] > 0
