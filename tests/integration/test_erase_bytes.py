"""After an erasure no file of the store has a byte of what it took: texts, ids, vectors.

DuckDB compresses nothing here, or a search would prove nothing (PLATFORM D52).
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lancedb
import pytest
from helpers.edits import revise_memory
from helpers.erasures import (
    CREATED,
    erase,
    export,
    fill,
    find_bytes,
    pack,
    proof_of,
    read_vectors,
    recall,
    refresh,
    remember,
)
from helpers.rows import NOW
from helpers.runs import request_job, run_one

from storage import Store, engine
from storage.erasure_files import scan_files
from storage.vectors import VectorStore
from tasks.policies import PrunePolicy

SAVINGS = "Grete Minde keeps her savings under the third floorboard"
EARLIER = "Grete Minde keeps her savings in a tin behind the stove"
LOST = "zq-metadata-7741-of-grete"
TARGET = "memory-of-grete-7741"
UNCOMPRESSED = "SET GLOBAL force_compression = 'uncompressed'"


@pytest.fixture
def plain(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Give a store whose files are not compressed, rewritten ones neither."""
    connect = engine.connect

    def connect_plainly(file: str) -> object:
        connection = connect(file)
        connection.execute(UNCOMPRESSED)
        return connection

    monkeypatch.setattr(engine, "connect", connect_plainly)
    with store.write() as writer:
        writer.run_script(UNCOMPRESSED)
    yield store
    with store.write() as writer:
        writer.run_script("SET GLOBAL force_compression = 'auto'")


@pytest.fixture
def filled(plain: Store, tmp_path: Path) -> Store:
    """Fill every place where something of a memory can stand, old versions included."""
    target = remember(TARGET, EARLIER, tags=["subject:grete"], metadata={"note": LOST})
    others = [remember(f"m{n}", f"a plain memory with the number {n}") for n in range(30)]
    edge = {"relations": [{"kind": "related_to", "target_id": TARGET}]}
    fill(plain, tmp_path / "in.jsonl", target, *others, remember("friend", "a friend", **edge))
    refresh(plain)
    with plain.write() as writer:
        revise_memory(writer, 1, TARGET, content=SAVINGS, at=NOW)
    refresh(plain)
    old = {"policy": PrunePolicy(max_items=3), "job": "prune", "now": NOW}
    run_one(request_job(plain, **old))
    export(plain)
    return plain


def list_needles(store: Store) -> dict[str, bytes]:
    needles = {"secret": SAVINGS, "earlier": EARLIER, "metadata": LOST, "id": TARGET}
    said = {name: text.encode() for name, text in needles.items()}
    vectors = [row["vector"] for row in read_vectors(store) if row["memory_id"] == TARGET]
    assert len(vectors) == 2
    return said | {f"vector {n}": pack(vector) for n, vector in enumerate(vectors)}


def test_no_file_has_a_byte_of_it_any_more(filled: Store) -> None:
    needles = list_needles(filled)
    before = find_bytes(filled.path, needles)
    assert before.keys() == needles.keys(), "the search would prove nothing"
    result = erase(filled, TARGET)
    assert result.end.outcome == "applied"
    assert find_bytes(filled.path, needles) == {}
    said = proof_of(filled, result)["proof"]
    assert (said["remaining"], said["found"]) == (0, 0)
    assert said["needles"] == 4
    assert said["files"] == sum(file.is_file() for file in filled.path.rglob("*"))
    assert recall(filled, "savings of Grete Minde") == ()


def test_vectors_leave_old_versions_and_indexes(filled: Store) -> None:
    """A row that was only deleted, and the index over it, keep the bytes (PLATFORM D53)."""
    vectors = VectorStore(filled.path)
    (table,) = vectors.tables()
    opened = lancedb.connect(vectors.path).open_table(table)
    many = opened.search().limit(None).to_arrow()
    for _ in range(6):
        opened.add(many)
    vectors.index_rows(table)
    needles = list_needles_of(opened)
    opened.delete(f"memory_id = '{TARGET}'")
    assert find_bytes(vectors.path, needles).keys() == needles.keys()
    assert erase(filled, TARGET).end.outcome == "applied"
    assert find_bytes(vectors.path, needles) == {}
    assert vectors.figures(table).versions == 1


def list_needles_of(table: lancedb.table.Table) -> dict[str, bytes]:
    rows = table.search().where(f"memory_id = '{TARGET}'").limit(1).to_list()
    return {"id": TARGET.encode(), "vector": pack(rows[0]["vector"])}


def test_text_that_another_memory_says_is_no_failure(plain: Store, tmp_path: Path) -> None:
    fill(
        plain,
        tmp_path / "in.jsonl",
        remember("m1", "the shared sentence of two"),
        remember("m2", "he wrote: the shared sentence of two, and more"),
    )
    result = erase(plain, "m1")
    assert result.end.outcome == "applied"
    said = proof_of(plain, result)["proof"]
    assert (said["shared"], said["found"]) == (1, 0)


def test_bytes_in_a_file_that_nobody_owns_leave_the_proof_open(
    plain: Store, tmp_path: Path
) -> None:
    fill(plain, tmp_path / "in.jsonl", remember("m1", SAVINGS), remember("m2", "the dog"))
    stray = plain.path / "notes.txt"
    stray.write_text(f"{CREATED} {SAVINGS}", encoding="utf-8")
    result = erase(plain, "m1")
    assert (result.end.outcome, result.end.code) == ("partial", "erase_unproved")
    assert proof_of(plain, result)["phase"] == "rows"
    assert erase(plain, "m1").end.outcome == "partial"
    stray.unlink()
    again = erase(plain, "m1")
    assert (again.end.outcome, again.end.figures["resumed"]) == ("applied", 1)
    assert proof_of(plain, result)["phase"] == "proved"


def test_others_read_the_store_while_its_other_files_are_searched(store: Store) -> None:
    large = store.path / "vectors" / "large"
    large.parent.mkdir()
    with large.open("wb") as file:
        file.truncate(64 * 2**20)
        file.seek(-len(SAVINGS), 2)
        file.write(SAVINGS.encode())
    reads = 0
    with ThreadPoolExecutor(1) as pool:
        scan = pool.submit(scan_files, store, [SAVINGS.encode()])
        while not scan.done():
            with store.read():
                reads += not scan.done()
    assert scan.result().found == {SAVINGS.encode(): ("vectors/large",)}
    assert reads > 1
