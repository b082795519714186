"""The refresh vectors as a real store: everything that a step of a case can do."""

import contextlib
import shutil
import uuid
from collections.abc import Iterator
from typing import Any

import lancedb
from helpers.refresh_parts import Json, PlainEmbedder
from helpers.refresh_runs import RunWorld

from storage.gateway import DATABASE_FILE
from storage.leases import acquire_lease
from storage.namespaces import (
    ensure_namespace,
)
from storage.receipts import export_checkpoint
from storage.records import read_record
from tasks.refresh.run import refresh
from tasks.refresh.work import Owner


class World(RunWorld):
    """The same with everything that can happen around a run."""

    def do_advance(self, seconds: int) -> None:
        """Move the clock."""
        self.seconds += seconds

    def do_fault(self, rows: dict[str, str | None]) -> None:
        """Set what the embedder does with texts."""
        self.faults |= {self.text(name): fault for name, fault in rows.items()}

    def do_script(self, calls: list[str]) -> None:
        """Set what the next calls of the embedder do."""
        self.script += calls

    def do_response(self, kind: str) -> None:
        """Let every answer of the embedder be wrong as a whole."""
        self.response = kind

    def do_copy_store(self) -> None:
        """Use a copy of the database file."""
        file = self.store.path / DATABASE_FILE
        copy = file.with_suffix(".copy")
        shutil.copy(file, copy)
        copy.replace(file)

    def do_remove_lance(self) -> None:
        """Empty the vector directory."""
        shutil.rmtree(self.store.path / "vectors")

    def do_drop_vector(self, id: str) -> None:  # noqa: A002
        """Delete a served row behind the pointer."""
        with self._served_rows(id) as (table, where):
            table.delete(where)

    def do_damage_vector(self, id: str) -> None:  # noqa: A002
        """Swap the two components of a served vector."""
        with self._served_rows(id) as (table, where):
            row = table.search().where(where).limit(1).to_list()[0]
            table.update(where=where, values={"vector": list(reversed(row["vector"]))})

    @contextlib.contextmanager
    def _served_rows(self, memory_id: str) -> Iterator[tuple[Any, str]]:
        pointer = self.read_pointer()
        database = lancedb.connect(self.store.path / "vectors")
        where = f"memory_id = '{memory_id}' AND publication_id = '{pointer['publication_id']}'"
        yield database.open_table(pointer["vector_table"]), where

    def do_change_model_revision(self, revision: str) -> None:
        """Use another revision of the model."""
        self.revision = revision

    def do_change_execution(self, fields: dict[str, int]) -> None:
        """Change how texts are sent."""
        names = {"maxRetries": "max_retries"}
        self.bounds = self.bounds.model_copy(update={names[k]: v for k, v in fields.items()})

    def do_lose_token(self) -> None:
        """Let the repository have no token from here on."""
        self.repository.has_token = False

    def do_bad_token_profile(self) -> None:
        """Let the repository's token mean something else."""
        self.repository.profile = "somebody.else.v1"

    def do_forge_snapshot(self) -> None:
        """Let the repository lie about its snapshot."""
        self.repository.is_forged = True

    def do_fail(self, error: str) -> None:
        """Let the next read of the source, or the next observation, fail."""
        self.repository.fails = error == "repository_io"
        self.index_error = error == "index_error"

    def do_checkpoint(self) -> None:
        """Export the owner's receipt; an index without history tokens gives none of its own."""
        assert self.owner is not None
        (receipt,) = self.owner.receipts.values()
        made = export_checkpoint(receipt)
        self.checkpoint = (
            made if self.has_history else made.model_copy(update={"index_token": None})
        )

    def do_new_owner(
        self,
        checkpoint: bool = False,  # noqa: FBT002 - the word of the vectors
        repository: str = "same",
        index: str = "same",
        ops: list[Json] | None = None,
    ) -> None:
        """Go on as another owner, perhaps with a checkpoint, another repository or index."""
        self.owner = Owner(checkpoint=self.checkpoint if checkpoint else None)
        if repository == "other":
            other = World(self.store.path.with_name("other"), self.texts, self.settings)
            other.do_tx(ops or [])
            self.repository = other.repository
        if index == "equal_status_other_history":
            self.sql(f"UPDATE index_pointer SET pointer_uuid = '{uuid.uuid4()}'")  # noqa: S608
        if index == "fresh":
            for table in ("partitions", "index_pointer", "publications"):
                self.sql(f"DELETE FROM {table}")  # noqa: S608

    def do_other_refresh(self) -> None:
        """Let another owner publish the current state of the same partition."""
        at_work, self.at_work = self.at_work, None
        assert at_work is not None
        work = self.work(at_work.lease)
        work.owner = Owner()
        work.embedder = PlainEmbedder(self.revision)
        refresh(work)
        self.at_work = at_work

    def do_purge_receipts(self) -> None:
        """Delete all receipts."""
        self.sql("DELETE FROM refresh_receipts")
        self.sql("UPDATE partitions SET receipt_id = NULL")

    def do_hold_lease(self, seconds: int) -> None:
        """Let somebody else hold the lease."""
        holder = f"other-{next(self.keys)}"
        with self.store.write() as writer:
            acquire_lease(
                writer, self.target, "refresh", holder=holder, clock=self.clock(), ttl_s=seconds
            )

    def do_steal_lease(self) -> None:
        """Let somebody else take the lease over."""
        self.sql("UPDATE leases SET holder = 'thief', lease_fence = lease_fence + 1")

    def do_same_partition_publish(self) -> None:
        """Let another writer move the pointer."""
        name = self.partition().name
        self.sql(f"UPDATE partitions SET revision = revision + 1 WHERE partition = '{name}'")  # noqa: S608

    def do_foreign_publish(self) -> None:
        """Let another namespace publish one row into the same index."""
        with self.store.write() as writer:
            target = ensure_namespace(writer, self.other)
        text = f"what others write {next(self.keys)}"
        made = self._make_add("f", text)
        with self.store.read() as reader:
            found = read_record(reader, target.namespace_id, "f")
        if found is not None:
            said = {
                "uri": f"e://{text}",
                "digest": "d1",
                "kind": "manual",
                "occurred_at": self.now(),
            }
            made = {"op": "revise", "memory_id": "f", "expected_revision": found.revision}
            made |= {"content": text, "mode": "correction", "evidence": [said]}
        self._apply(self.other, [made])
        lease = self.begin(f"foreign-{next(self.keys)}", target)
        work = self.work(lease, target)
        work.embedder = PlainEmbedder(self.revision)
        work.owner = Owner() if self.owner is not None else None
        self.finish(work, refresh(work))
