"""Faults that other stores really had, as cases of refresh: import, run, recall, status."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import lancedb.table
import pytest
from helpers.consolidate_runs import Keeper, say
from helpers.edits import revise_memory
from helpers.embedders import IDENTITY, ScriptedEmbedder
from helpers.imports import record
from helpers.indexes import MapEmbedder
from helpers.refresh_processes import TTL_S, ProcessWorld
from helpers.sets import START
from helpers.vectors import Json

from storage import Store
from storage.vectors import VectorStore
from tasks.hits import RecallPolicy
from tasks.janitor import JanitorPolicy
from tasks.policies import PrunePolicy
from tasks.providers.embedder import Embedder, Vector
from tasks.recall import Recalled, SemanticSource, recall_memories
from tasks.report import RunResult
from tasks.status import show_status

OLD_TEXT = "the staging cluster is named otter"
NEW_TEXT = "backups are restored from the vault"
AT_OLD, AT_NEW = [1.0, 0.0], [-1.0, 0.0]
# No word of the texts, so only vectors find them.
QUERY_OLD, QUERY_NEW = "zulu", "yankee"
PLANE = {OLD_TEXT: AT_OLD, QUERY_OLD: AT_OLD, NEW_TEXT: AT_NEW, QUERY_NEW: AT_NEW}
GIVE_LEASE_BACK = """
UPDATE leases
SET holder = (SELECT run_id FROM runs ORDER BY started_at LIMIT 1),
    lease_fence = lease_fence - 1,
    expires_at = $until
WHERE job = 'refresh'
"""
SERVED = """
SELECT u.publication_id, u.vector_table
FROM serving JOIN partitions AS p USING (partition) JOIN publications AS u USING (publication_id)
WHERE serving.namespace_id = $owner
"""


@pytest.fixture
def keeper(store: Store, now: datetime) -> Keeper:
    return Keeper(store, now)


def ask(keeper: Keeper, query: str, embedder: Embedder) -> Recalled:
    """Recall by words and by meaning."""
    return recall_memories(
        keeper.store,
        keeper.namespace,
        query,
        policy=RecallPolicy(),
        now=keeper.now,
        source=SemanticSource(lambda: embedder),
    )


def found(keeper: Keeper, query: str, embedder: Embedder) -> list[str]:
    """Give the memories that a recall by meaning serves."""
    answer = ask(keeper, query, embedder)
    assert answer.semantic == "used"
    return [hit.memory_id for hit in answer.hits]


def read_status(keeper: Keeper) -> Json:
    return show_status(keeper.store, now=keeper.now, namespace=keeper.namespace)


def read_index(keeper: Keeper) -> Json:
    index: Json = read_status(keeper)["index"]
    return {name: index[name] for name in ("active", "embedded", "stale", "coverage")}


def revise(keeper: Keeper, memory_id: str, content: str) -> None:
    with keeper.store.write() as writer:
        owner = keeper.owner_id(writer)
        revise_memory(writer, owner, memory_id, content=content, at=keeper.now)


def read_served(keeper: Keeper) -> list[str]:
    """Read the memory ids of every row that the one serving publication has in Lance."""
    with keeper.store.read() as reader:
        ((publication, table),) = reader.rows(SERVED, {"owner": keeper.owner_id(reader)})
    batches = VectorStore(keeper.store.path).read(table, publication, ["memory_id"])
    return sorted(row["memory_id"] for batch in batches for row in batch.to_pylist())


def while_staged(world: ProcessWorld, then: Callable[[], object]) -> str:
    """Do something while a run of another namespace has staged its vectors; give its end."""
    reached: list[str] = []

    def on_step(step: str) -> None:
        if step == "after_stage" and not reached:
            reached.append(step)
            then()

    return world.run("live", on_step)


def list_rows(keeper: Keeper) -> dict[str, dict[str, int]]:
    """Count the vectors of each publication, by table."""
    vectors = VectorStore(keeper.store.path)
    before = keeper.now + timedelta(days=1)
    return {table: vectors.list_publications(table, before=before) for table in vectors.tables()}


def break_commits(store: Store, table: str, aside: Path) -> Callable[[], object]:
    """Let LanceDB fail to commit to a table until what is given back is called."""
    commits = store.path / "vectors" / f"{table}.lance" / "_transactions"
    commits.rename(aside)
    commits.write_bytes(b"")

    def mend() -> None:
        commits.unlink()
        aside.rename(commits)

    return mend


def test_c42_deleted_memory_is_no_hit_and_leaves_with_the_next_refresh(
    store: Store, tmp_path: Path
) -> None:
    keeper = Keeper(store, START + timedelta(seconds=TTL_S // 2))
    embedder = MapEmbedder(PLANE)
    keeper.add(
        record("m1", content=OLD_TEXT, importance=0.1),
        record("m2", content=NEW_TEXT, importance=0.9),
    )
    keeper.refresh(embedder)
    assert found(keeper, QUERY_OLD, embedder) == ["m1"]
    (table,) = VectorStore(store.path).tables()
    world = ProcessWorld(store, tmp_path / "embedded.log", 2)

    def delete_and_refresh() -> None:
        assert keeper.run("prune", policy=PrunePolicy(mode="delete")).end.applied == 1
        assert list(keeper.list_statuses()) == ["m2"]
        mend = break_commits(store, table, tmp_path / "kept")
        failed = keeper.refresh(embedder)
        mend()
        assert (failed.end.outcome, failed.end.applied) == ("failed", 0)
        assert read_served(keeper) == ["m1", "m2"]
        assert found(keeper, QUERY_OLD, embedder) == []

        assert keeper.refresh(embedder).end.outcome == "applied"
        assert read_served(keeper) == ["m2"]
        assert found(keeper, QUERY_OLD, embedder) == []
        rows = list_rows(keeper)
        assert sorted(sum(one.values()) for one in rows.values()) == [2, 3]
        swept = keeper.run("janitor", policy=JanitorPolicy(), namespace=None)
        assert swept.end.failed == 0
        assert list_rows(keeper) == rows

    assert while_staged(world, delete_and_refresh) == "published"
    world.assert_whole()


def test_c43_coverage_counts_current_content_only(keeper: Keeper) -> None:
    embedder = MapEmbedder(PLANE)
    keeper.add(*say(OLD_TEXT))
    keeper.refresh(embedder)
    assert read_index(keeper) == {"active": 1, "embedded": 1, "stale": 0, "coverage": 1.0}
    assert found(keeper, QUERY_OLD, embedder) == ["m1"]

    revise(keeper, "m1", NEW_TEXT)
    assert read_index(keeper) == {"active": 1, "embedded": 0, "stale": 1, "coverage": 0.0}
    assert found(keeper, QUERY_OLD, embedder) == []

    assert keeper.refresh(embedder).end.applied == 1
    assert read_index(keeper) == {"active": 1, "embedded": 1, "stale": 0, "coverage": 1.0}
    assert found(keeper, QUERY_OLD, embedder) == []
    assert found(keeper, QUERY_NEW, embedder) == ["m1"]


def test_c44_readers_switch_to_another_model_once_it_is_complete(keeper: Keeper) -> None:
    def model(name: str, dimension: int, fault: Sequence[float] | None = None) -> ScriptedEmbedder:
        axis = [1.0] + [0.0] * (dimension - 1)
        vectors = {QUERY_OLD: axis, OLD_TEXT: axis, NEW_TEXT: fault or axis}
        identity = IDENTITY.model_copy(update={"model": name, "dimension": dimension})
        return ScriptedEmbedder(identity=identity, vectors=vectors)

    keeper.add(*say(OLD_TEXT, NEW_TEXT))
    models = [model("a", 4), model("b", 6), model("b-prime", 4)]
    broken = [model("b", 6, [0.0] * 6), model("b-prime", 4, [0.0] * 4)]
    assert keeper.refresh(models[0]).end.applied == 2
    vectors = VectorStore(keeper.store.path)
    for old, new, fault in zip(models, models[1:], broken, strict=False):
        tables, rows = set(vectors.tables()), list_rows(keeper)
        assert keeper.refresh(fault).end.outcome == "partial"
        assert sorted(found(keeper, QUERY_OLD, old)) == ["m1", "m2"]
        assert ask(keeper, QUERY_OLD, new).semantic != "used"
        later = replace(keeper, now=keeper.now + timedelta(days=1))
        result = later.refresh(new)
        assert result.end.outcome == "applied"
        assert sorted(fault.calls[0]) == sorted([OLD_TEXT, NEW_TEXT])
        assert new.calls[0] == [NEW_TEXT]
        assert sorted(found(later, QUERY_OLD, new)) == ["m1", "m2"]
        assert ask(later, QUERY_OLD, old).semantic != "used"
        assert tables <= set(vectors.tables())
        assert all(list_rows(later)[table].items() >= rows[table].items() for table in tables)
        keeper = later


@pytest.mark.slow
def test_c45_many_updates_are_one_commit_and_a_failed_compaction_is_an_alarm(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count_versions() -> int:
        return int(show_status(keeper.store, now=keeper.now)["files"]["vector_versions"])

    embedder = ScriptedEmbedder()
    keeper.add(*(record(f"m{n}", content=f"note {n}") for n in range(300)))
    keeper.refresh(embedder)
    before = count_versions()
    with keeper.store.write() as writer:
        owner = keeper.owner_id(writer)
        for n in range(300):
            text = f"note {n} as amended"
            revise_memory(writer, owner, f"m{n}", content=text, at=keeper.now)
    assert count_versions() == before
    assert keeper.refresh(embedder).end.applied == 300
    assert count_versions() == before + 1

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("compaction")

    monkeypatch.setattr(lancedb.table.LanceTable, "optimize", fail)
    policy = JanitorPolicy(optimize_after_commits=1)
    assert keeper.run("janitor", policy=policy, namespace=None).end.outcome == "failed"
    status = show_status(keeper.store, now=keeper.now)
    assert [one["name"] for one in status["breaches"]] == ["max_failed_jobs"]
    revise(keeper, "m0", "note 0 as amended twice")
    assert keeper.refresh(embedder).end.outcome == "applied"
    assert keeper.consolidate().end.outcome in {"applied", "unchanged"}


class Interrupted:
    """An embedder during whose work something else happens, once."""

    identity = IDENTITY

    def __init__(self, then: Callable[[], object]) -> None:
        self._then: Callable[[], object] | None = then

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        then, self._then = self._then, None
        if then is not None:
            then()
        return MapEmbedder(PLANE).embed_documents(texts)

    def embed_query(self, text: str) -> Vector:
        return MapEmbedder(PLANE).embed_query(text)


@pytest.mark.parametrize(
    ("is_overdue", "is_given_back", "codes"),
    [
        pytest.param(False, False, ("published", "lease_held"), id="C46-lease-held"),
        pytest.param(True, False, ("lease_lost", "published"), id="C46-lease-lost"),
        pytest.param(True, True, ("revision_conflict", "published"), id="C46-compare-and-set"),
    ],
)
def test_c46_one_of_two_refreshes_at_once_publishes(
    keeper: Keeper, is_overdue: bool, is_given_back: bool, codes: tuple[str, str]
) -> None:
    keeper.add(*say(OLD_TEXT))
    late = replace(keeper, now=keeper.now + timedelta(hours=is_overdue))
    others: list[RunResult] = []

    def then() -> None:
        others.append(late.refresh(MapEmbedder(PLANE)))
        if is_given_back:
            until = late.now + timedelta(hours=1)
            with keeper.store.write() as writer:
                assert writer.execute(GIVE_LEASE_BACK, {"until": until}) == 1

    mine = keeper.refresh(Interrupted(then))
    assert (mine.end.code, others[0].end.code) == codes
    assert read_served(keeper) == ["m1"]
    assert read_index(late) == {"active": 1, "embedded": 1, "stale": 0, "coverage": 1.0}
    later = replace(keeper, now=late.now + timedelta(hours=2))
    again = later.refresh(MapEmbedder(PLANE))
    assert again.end.outcome == "unchanged"
    later.check()
