"""What searches among vectors have found is kept: a text is searched with once, none is lost."""

import random
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import combinations
from threading import Barrier, Thread
from typing import Any

import numpy as np
import pytest
from helpers.asking import NOW
from helpers.embedders import IDENTITY
from helpers.indexes import MapEmbedder, lean, publish
from helpers.runs import dump_tables
from helpers.sets import SPACE, change, change_set, create, evidence

from storage import Store
from storage.namespaces import find_namespace
from storage.neighbours import read_embedded
from storage.removal import remove_memories
from storage.repository import apply_change_set
from storage.semantic_searches import Searches, read_searches, store_searches
from tasks.providers.checks import normalise_vector
from tasks.providers.embedder import EmbeddingIdentity
from tasks.rules.cosine import compare_vectors
from tasks.semantic_pairs import SemanticPairs, find_semantic_pairs

pytestmark = pytest.mark.slow

PLAIN = IDENTITY.model_copy(update={"normalisation": "none"})
Json = dict[str, Any]
Triple = tuple[str, str, float]
_STATES = "SELECT id, text_number, content, status FROM memories"


class World:
    """A store whose texts have vectors; what is published is remembered."""

    def __init__(self, store: Store, identity: EmbeddingIdentity = PLAIN) -> None:
        self.store, self.identity = store, identity
        self.vectors: dict[str, list[float]] = {}
        self.published: dict[str, str] = {}
        self.sets = 0

    def change(self, *operations: Json) -> None:
        self.sets += 1
        apply_change_set(self.store, change_set(f"set-{self.sets}", 0, *operations))

    def add(self, vectors: dict[str, list[float]], **fields: object) -> None:
        """Create memories whose ids are their texts."""
        self.vectors |= vectors
        self.change(*(create(text, text, **fields) for text in vectors))

    def revise(self, memory_id: str, revision: int, text: str, vector: list[float]) -> Json:
        """Give an operation that gives a memory another text."""
        self.vectors[text] = vector
        step = change("revise", memory_id, revision, content=text, mode="correction")
        return {**step, "evidence": [evidence(f"e://{text}")]}

    def remove(self, memory_id: str) -> None:
        with self.store.write() as writer:
            owner = find_namespace(writer, SPACE)
            assert owner is not None
            assert remove_memories(writer, owner.namespace_id, [memory_id], now=NOW) == 1

    def publish(self) -> None:
        publish(self.store, SPACE, MapEmbedder(self.vectors, self.identity))
        self.published = {name: text for name, _, text, status in self.read() if status == "active"}

    def read(self) -> list[tuple[str, int, str, str]]:
        with self.store.read() as reader:
            return reader.rows(_STATES)

    def find(self, threshold: float = 0.95, k: int = 10, now: datetime = NOW) -> SemanticPairs:
        return find_semantic_pairs(self.store, SPACE, threshold=threshold, k=k, now=now)

    def compare_every(self, threshold: float = 0.95, k: int = 10) -> set[Triple]:
        """Compare every two published texts that are current; each has k partners of its own."""
        near: dict[int, list[tuple[float, int]]] = {}
        names: dict[int, str] = {}
        units: dict[int, np.ndarray[tuple[int, ...], np.dtype[np.float32]]] = {}
        for name, number, text, status in self.read():
            if status == "active" and self.published.get(name) == text:
                unit = normalise_vector(np.array(self.vectors[text], np.float32), self.identity)
                assert isinstance(unit, np.ndarray)
                near[number], names[number], units[number] = [], name, unit
        for one, other in combinations(sorted(names), 2):
            (cosine,) = compare_vectors(units[one][None], units[other][None])
            if cosine >= threshold:
                near[one].append((-cosine, other))
                near[other].append((-cosine, one))
        return {
            triple(names[one], names[other], -cosine)
            for one, partners in near.items()
            for cosine, other in sorted(partners)[:k]
        }


@pytest.fixture
def world(store: Store) -> World:
    """Give a world with three published texts in a row."""
    made = World(store)
    made.add({"a": lean(1.0), "b": lean(0.99), "c": lean(0.96)})
    made.publish()
    return made


def triple(one: str, other: str, cosine: float) -> Triple:
    return (min(one, other), max(one, other), cosine)


def triples(found: SemanticPairs) -> set[Triple]:
    rows = found.pairs.to_pylist()
    return {triple(row["memory_id"], row["partner_id"], row["cosine"]) for row in rows}


def named(pairs: Iterable[Triple]) -> set[str]:
    return {one + other for one, other, _ in pairs}


def lose_vectors(store: Store) -> None:
    """Delete the files that vectors are read from."""
    files = list((store.path / "vectors").glob("*.lance/data/*"))
    assert files
    for file in files:
        file.unlink()


def read_stored(store: Store) -> Searches:
    with store.read() as reader:
        owner = find_namespace(reader, SPACE)
        assert owner is not None
        served = read_embedded(reader, owner.namespace_id, store.path, now=NOW)
        assert served is not None
        return read_searches(reader, owner.namespace_id, served.partition)


def numbers_in(known: Searches) -> set[int]:
    columns = (known.pairs.column(name).to_pylist() for name in ("text_number", "partner_number"))
    return {number for column in columns for number in column}


def test_second_run_reads_no_vector_and_writes_nothing(world: World) -> None:
    first = world.find()
    assert (first.searched, named(triples(first))) == (3, {"ab", "ac", "bc"})
    lose_vectors(world.store)
    before = dump_tables(world.store)
    assert world.find() == replace(first, searched=0)
    assert triples(world.find(0.98)) == world.compare_every(0.98)
    assert triples(world.find(k=1)) == world.compare_every(k=1)
    assert dump_tables(world.store) == before


def test_only_new_texts_are_searched_with(world: World) -> None:
    world.find()
    world.add({"d": lean(0.97)})
    world.change(world.revise("c", 1, "c2", lean(0.995)))
    world.publish()
    found = world.find()
    assert (found.searched, found.compared) == (2, 4)
    assert triples(found) == world.compare_every()


@pytest.mark.parametrize("threshold", [0.5, 0.95])
def test_lower_threshold_searches_again(world: World, threshold: float) -> None:
    world.find(0.98)
    world.add({"far": lean(0.7)})
    world.publish()
    found = world.find(threshold)
    assert found.searched == 4
    assert triples(found) == world.compare_every(threshold)
    assert world.find(threshold).searched == 0


def test_text_that_comes_back_meets_those_that_came_meanwhile(world: World) -> None:
    world.add({"z": lean(0.97)}, expires_at="2026-01-01T02:00:00Z")
    world.publish()
    with_it = world.find()
    world.add({"y": lean(0.98)})
    world.publish()
    assert "z" not in {
        end for pair in triples(world.find(now=NOW + timedelta(hours=2))) for end in pair[:2]
    }
    found = world.find()
    assert found.searched == 1
    assert triples(found) == world.compare_every() > triples(with_it)


def test_rows_of_texts_that_ended_are_dropped(world: World) -> None:
    world.find()
    kept = {number for name, number, *_ in world.read() if name != "b"}
    world.change(change("set_status", "b", 1, status="tombstoned"))
    found = world.find()
    assert (found.searched, named(triples(found))) == (0, {"ac"})
    stored = read_stored(world.store)
    assert set(stored.searches.column("text_number").to_pylist()) == kept
    assert numbers_in(stored) == kept


def test_rows_of_removed_memories_are_deleted_with_them(world: World) -> None:
    world.find()
    (removed,) = (number for name, number, *_ in world.read() if name == "b")
    world.remove("b")
    stored = read_stored(world.store)
    assert removed not in stored.searches.column("text_number").to_pylist()
    assert (removed in numbers_in(stored), stored.pairs.num_rows) == (False, 1)


def test_rows_of_another_generation_are_dropped(world: World) -> None:
    first = world.find()
    old = read_stored(world.store)
    world.identity = PLAIN.model_copy(update={"revision": "another"})
    world.publish()
    assert world.find() == first
    stored = read_stored(world.store)
    assert (stored.partition == old.partition, stored.others) == (False, 0)
    tables = dump_tables(world.store)
    assert len(tables["semantic_searches"]) == len(tables["semantic_pairs"]) == 3


def test_what_another_run_stored_first_stays(world: World) -> None:
    world.find()
    known = read_stored(world.store)
    nothing = replace(known, searches=known.searches.slice(0, 0), pairs=known.pairs.slice(0, 0))
    with world.store.write() as writer:
        assert not store_searches(writer, replace(nothing, revision=known.revision - 1))
    assert read_stored(world.store) == known
    with world.store.write() as writer:
        assert store_searches(writer, known)
    assert read_stored(world.store) == replace(known, revision=known.revision + 1)


def test_texts_that_go_meanwhile_are_not_stored(world: World) -> None:
    world.find()
    known = read_stored(world.store)
    world.change(change("set_status", "b", 1, status="tombstoned"))
    with world.store.write() as writer:
        cleared = replace(known, searches=known.searches.slice(0, 0), pairs=known.pairs.slice(0, 0))
        assert store_searches(writer, cleared)
        assert store_searches(writer, replace(known, revision=known.revision + 1))
    stored = read_stored(world.store)
    assert (stored.searches.num_rows, stored.pairs.num_rows) == (2, 1)


def test_runs_at_once_find_and_store_the_same(world: World) -> None:
    barrier, found = Barrier(4), list[SemanticPairs]()

    def run() -> None:
        barrier.wait()
        found.append(world.find())

    threads = [Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [triples(one) for one in found] == [world.compare_every()] * 4
    stored = read_stored(world.store)
    assert (stored.searches.num_rows, stored.pairs.num_rows) == (3, 3)
    assert world.find().searched == 0


def test_index_is_asked_where_vectors_are_many(world: World) -> None:
    asked = find_semantic_pairs(world.store, SPACE, threshold=0.95, now=NOW, exact_vectors=0)
    assert (asked.searched, triples(asked)) == (3, world.compare_every())
    world.add({"d": lean(0.97)})
    world.publish()
    asked = find_semantic_pairs(world.store, SPACE, threshold=0.95, now=NOW, exact_vectors=0)
    assert (asked.searched, triples(asked)) == (1, world.compare_every())


@pytest.mark.parametrize("seed", range(2))
def test_any_changes_leave_what_comparing_every_two_finds(store: Store, seed: int) -> None:
    rng, world = random.Random(seed), World(store)  # noqa: S311 - the same changes each time
    revisions: dict[str, int] = {}

    def point() -> list[float]:
        return [float(rng.randint(1, 5)), float(rng.randint(0, 5))]

    for step in range(5):
        made = {f"m{step}-{place}": point() for place in range(12)}
        world.add(made)
        revisions |= dict.fromkeys(made, 1)
        *revised, ended, other, removed = rng.sample(sorted(revisions), 7)
        world.change(
            *(world.revise(name, revisions[name], f"{name} {step}", point()) for name in revised),
            *(
                change("set_status", name, revisions.pop(name), status="tombstoned")
                for name in (ended, other)
            ),
        )
        world.remove(removed)
        revisions |= {name: revisions[name] + 1 for name in revised}
        del revisions[removed]
        if step != 2:
            world.publish()
        threshold, k = rng.choice([0.9, 0.95, 0.99]), rng.choice([1, 2, 5])
        found = world.find(threshold, k)
        assert triples(found) == world.compare_every(threshold, k)
        assert found.pairs.num_rows == len(triples(found))
