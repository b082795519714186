"""What goes wrong in the semantic branch leaves exactly the lexical answer and one fixed text."""

import asyncio
import shutil
from pathlib import Path

import lancedb
import numpy as np
import pytest
from helpers.asking import NOW, QUERY, VECTORS, Change, ask, assert_lexical, ids, publish_texts
from helpers.embedders import IDENTITY
from helpers.indexes import MapEmbedder, lose_pointers
from helpers.sets import SPACE

from storage import Store
from storage.gateway import DATABASE_FILE
from storage.vectors import VectorStore
from tasks.providers.embedder import Vector
from tasks.recall import RecallPolicy, SemanticSource, recall_memories
from tasks.semantic import EMBEDDING_FAILED, INDEX_CHANGED, INVALID, SEARCH_FAILED


@pytest.fixture
def embedder(store: Store) -> MapEmbedder:
    return publish_texts(store)


class BrokenEmbedder(MapEmbedder):
    """Has one fault."""

    def __init__(self, fault: BaseException | Vector) -> None:
        super().__init__(VECTORS)
        self._fault = fault

    def embed_query(self, text: str) -> Vector:
        super().embed_query(text)
        if isinstance(self._fault, BaseException):
            raise self._fault
        return self._fault


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(RuntimeError("it says: amber key"), id="raises"),
        pytest.param(TimeoutError(), id="timeout"),
        pytest.param(asyncio.CancelledError(), id="cancelled"),
        pytest.param(np.array([1.0, 0.0, 0.0], np.float32), id="dimension"),
        pytest.param(np.array([np.nan, 0.0], np.float32), id="not-finite"),
        pytest.param(np.array([0.0, 0.0], np.float32), id="zero"),
        pytest.param(np.array([1.02, 0.0], np.float32), id="length"),
    ],
)
@pytest.mark.usefixtures("embedder")
def test_query_without_vector_leaves_the_lexical_answer(
    store: Store, fault: BaseException | Vector
) -> None:
    assert_lexical(store, ask(store, BrokenEmbedder(fault)), EMBEDDING_FAILED)


def test_interruption_by_a_person_is_no_fault(store: Store, embedder: MapEmbedder) -> None:
    assert embedder.queries == []
    with pytest.raises(KeyboardInterrupt):
        ask(store, BrokenEmbedder(KeyboardInterrupt()))


def _remove_table(store: Store) -> None:
    vectors = VectorStore(store.path)
    for table in vectors.tables():
        vectors.drop_table(table)


def _remove_directory(store: Store) -> None:
    shutil.rmtree(store.path / "vectors")


def _copy_database(store: Store) -> None:
    file = store.path / DATABASE_FILE
    copy = file.with_suffix(".copy")
    shutil.copy(file, copy)
    copy.replace(file)


@pytest.mark.parametrize(
    ("damage", "warning"),
    [
        pytest.param(_remove_table, SEARCH_FAILED, id="table-removed"),
        pytest.param(_remove_directory, INDEX_CHANGED, id="vectors-removed"),
        pytest.param(_copy_database, INDEX_CHANGED, id="database-copied"),
        pytest.param(lose_pointers, INVALID, id="pointers-lost"),
    ],
)
def test_damaged_index_leaves_the_lexical_answer(
    store: Store, embedder: MapEmbedder, damage: Change, warning: str
) -> None:
    damage(store)
    assert_lexical(store, ask(store, embedder), warning)


def test_table_that_goes_during_the_search_leaves_the_lexical_answer(
    store: Store, embedder: MapEmbedder
) -> None:
    assert_lexical(store, ask(store, embedder, {"search": _remove_table}), SEARCH_FAILED)


def _rewrite(path: Path, values: dict[str, object]) -> None:
    """Change the row of the memory `near` behind everything."""
    database = lancedb.connect(path / "vectors")
    for name in VectorStore(path).tables():
        database.open_table(name).update(where="memory_id = 'near'", values=values)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"vector": [-1.0, 0.0]}, id="vector-turned"),
        pytest.param({"vector": [0.0, 0.0]}, id="vector-zeroed"),
        pytest.param({"memory_id": "far"}, id="names-another-memory"),
        pytest.param({"content_digest": "sha256:" + "0" * 64}, id="names-another-text"),
        pytest.param({"record_id": "mtr_" + "0" * 64}, id="names-another-record"),
        pytest.param({"partition": "a3s-memory-semantic-" + "0" * 64}, id="of-another-partition"),
    ],
)
def test_damaged_row_is_not_served(
    store: Store, embedder: MapEmbedder, values: dict[str, object]
) -> None:
    _rewrite(store.path, values)
    found = ask(store, embedder)
    assert (found.semantic, ids(found)) == ("used", ["words"])


def test_another_embedder_than_the_one_of_the_index_is_not_asked(
    store: Store, embedder: MapEmbedder
) -> None:
    other = MapEmbedder(VECTORS, IDENTITY.model_copy(update={"revision": "other"}))
    assert embedder.identity != other.identity
    assert_lexical(store, ask(store, other), INVALID)
    assert other.queries == []


def test_embedder_that_cannot_be_loaded_leaves_the_lexical_answer(
    store: Store, embedder: MapEmbedder
) -> None:
    def load() -> MapEmbedder:
        raise ModuleNotFoundError(str(embedder))

    source = SemanticSource(load=load)
    policy = RecallPolicy()
    found = recall_memories(store, SPACE, QUERY, policy=policy, now=NOW, source=source)
    assert_lexical(store, found, INVALID)


def test_unknown_fusion_leaves_the_lexical_answer(store: Store, embedder: MapEmbedder) -> None:
    assert_lexical(store, ask(store, embedder, fusion="memtend.hybrid.unknown.v1"), INVALID)
