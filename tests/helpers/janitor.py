"""Runs of the janitor in tests: over a world whose clock the test moves."""

from dataclasses import dataclass
from pathlib import Path

from helpers.refreshes import World

from storage.gateway import DATABASE_FILE
from storage.history import read_history_of_store
from storage.identities import name_vector_table
from storage.leases import Lease, acquire_lease, release_lease
from storage.vectors import TableFigures, VectorStore
from tasks.janitor import JanitorPolicy, JanitorReport, plan_janitor, sweep_up
from tasks.refresh.settings import RefreshSettings

HOUR = 3_600
DAY = 24 * HOUR


def make_world(path: Path, memories: int = 1) -> World:
    """Create a world with some memories, published once."""
    world = World(path, {}, RefreshSettings())
    added = [{"op": "add", "id": f"m{n}", "text": f"text {n}"} for n in range(memories)]
    with world.store.session():
        world.do_tx(added)
        assert world.do_run()["state"] == "completed"
    return world


def republish(world: World, text: str) -> None:
    """Change a memory and publish it, an hour later."""
    world.do_advance(HOUR)
    with world.store.session():
        world.do_tx([{"op": "revise", "id": "m0", "text": text}])
        assert world.do_run()["reason"] == "published"


def lease_janitor(world: World) -> Lease:
    """Take the lease of the janitor."""
    with world.store.write() as writer:
        return acquire_lease(writer, world.target, "janitor", holder="j", clock=world.clock())


def sweep(world: World, policy: JanitorPolicy | None = None) -> JanitorReport:
    """Run the janitor as a process would: lease, work, release."""
    lease = lease_janitor(world)
    report = sweep_up(world.store, policy or JanitorPolicy(), clock=world.clock, lease=lease)
    with world.store.write() as writer:
        release_lease(writer, lease, clock=world.clock())
    return report


def plan(world: World, policy: JanitorPolicy | None = None) -> JanitorReport:
    """Ask the janitor what is due."""
    return plan_janitor(world.store, policy or JanitorPolicy(), clock=world.clock)


def found_in(report: JanitorReport) -> dict[str, int]:
    """Give what each step found, where it found anything."""
    return {step.name: step.found for step in report.steps if step.found}


def done_in(report: JanitorReport) -> dict[str, int]:
    """Give what each step did, where it did anything."""
    return {step.name: step.done for step in report.steps if step.done}


def own_table(world: World) -> str:
    """Name the vector table of the store's history."""
    with world.store.read() as reader:
        history = read_history_of_store(reader, world.store.path)
    return name_vector_table(history.digest, 2, history.rebuilds)


def read_phases(world: World) -> dict[str, str]:
    """Read the phase of each publication, in the order of staging."""
    with world.store.read() as reader:
        return dict(
            reader.rows("SELECT publication_id, phase FROM publications ORDER BY staged_at")
        )


def read_counts(world: World) -> dict[str, int]:
    """Count the vectors of each publication, in the order of staging."""
    vectors, table = VectorStore(world.store.path), own_table(world)
    return {name: vectors.count(table, name) for name in read_phases(world)}


@dataclass(frozen=True, slots=True)
class Trace:
    """What a run that does nothing leaves as it was."""

    inode: int
    size: int
    written_ns: int
    tables: tuple[TableFigures, ...]


def take_trace(world: World) -> Trace:
    """Look at the files of a store, from outside."""
    stat = (world.store.path / DATABASE_FILE).stat()
    vectors = VectorStore(world.store.path)
    tables = tuple(vectors.figures(name) for name in vectors.tables())
    return Trace(stat.st_ino, stat.st_size, stat.st_mtime_ns, tables)
