"""Recall by words and meaning on a small published index, while others work on the store."""

import shutil
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from helpers.indexes import MapEmbedder, lean, publish
from helpers.sets import SPACE, START, change_set, create
from helpers.vectors import copy_store

from storage import Store
from storage.gateway import DATABASE_FILE
from storage.history import keep_history
from storage.repository import apply_change_set
from tasks.recall import Recalled, RecallPolicy, SemanticSource, recall, recall_memories
from tasks.semantic import SemanticStep

NOW = START + timedelta(hours=1)
QUERY = "amber key"
TEXTS = {
    "words": "the amber key",
    "near": "renew what signs our requests",
    "far": "lunch is at noon",
}
VECTORS = {QUERY: lean(1.0), TEXTS["words"]: lean(0.9), TEXTS["near"]: lean(0.8)}
Change = Callable[[Store], None]


@cache
def _publish_once() -> "TemporaryDirectory[str]":
    """Make a store with three memories and their index; making one costs more than copying it."""
    directory = TemporaryDirectory()
    store = copy_store(Path(directory.name) / "store")
    made = (create(name, text) for name, text in TEXTS.items())
    apply_change_set(store, change_set("made", 0, *made))
    publish(store, SPACE, MapEmbedder(VECTORS))
    return directory


def publish_texts(store: Store) -> MapEmbedder:
    """Fill an empty store with three published memories; give the embedder that published them."""
    shutil.copytree(Path(_publish_once().name) / "store", store.path, dirs_exist_ok=True)
    inode = (store.path / DATABASE_FILE).stat().st_ino
    with store.write() as writer:
        keep_history(writer, inode=inode)
    return MapEmbedder(VECTORS)


def ask(
    store: Store,
    embedder: MapEmbedder,
    changes: dict[SemanticStep, Change] | None = None,
    **options: Any,  # noqa: ANN401 - of the source
) -> Recalled:
    """Recall, while somebody changes the store before some steps."""

    def on_step(step: SemanticStep) -> None:
        if changes and step in changes:
            changes[step](store)

    source = SemanticSource(load=lambda: embedder, on_step=on_step, **options)
    return recall_memories(store, SPACE, QUERY, policy=RecallPolicy(), now=NOW, source=source)


def ids(found: Recalled) -> list[str]:
    """Give the ids of the hits."""
    return [hit.memory_id for hit in found.hits]


def assert_lexical(store: Store, found: Recalled, warning: str | None) -> None:
    """Check that the answer is exactly the lexical one, with this warning."""
    with store.read() as reader:
        alone = recall(reader, SPACE, QUERY, policy=RecallPolicy(), now=NOW)
    assert found == Recalled(alone, "dropped" if warning else "absent", warning)
    assert ids(found) == ["words"]
