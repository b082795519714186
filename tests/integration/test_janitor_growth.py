"""A store that is refreshed for ever stays small: what grows with every refresh is bounded."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from helpers.janitor import sweep
from helpers.refreshes import World

from storage.vectors import TableFigures
from tasks.janitor import JanitorPolicy
from tasks.refresh.settings import RefreshSettings

REFRESHES, EVERY, MEMORIES = 300, 50, 8
# Shorter than the form allows: what went out of use in the test must be old in the test.
POLICY = JanitorPolicy.model_construct(grace_hours=0.2 / 3_600)


class LiveWorld(World):
    """A world in real time: versions of vector tables are dated by the machine."""

    def clock(self) -> datetime:
        return datetime.now(UTC)


@pytest.mark.slow
def test_versions_fragments_and_files_stay_bounded_over_300_refreshes(tmp_path: Path) -> None:
    world = LiveWorld(tmp_path / "store", {}, RefreshSettings())
    world.do_tx([{"op": "add", "id": f"m{n}", "text": f"text {n}"} for n in range(MEMORIES)])
    peaks: list[TableFigures] = []
    rests: list[TableFigures] = []
    for _ in range(REFRESHES // EVERY):
        with world.store.session():
            refresh_often(world)
        report = sweep(world, POLICY)
        assert report.error is None
        assert report.after is not None
        peaks += report.before.tables
        rests += report.after.tables
    assert world.read_pointer()["records"] == MEMORIES
    assert len(peaks) == len(rests) == REFRESHES // EVERY
    for peak, rest in zip(peaks[1:], rests[1:], strict=True):
        # Each refresh adds one version, one fragment, and few files; the janitor takes them back.
        assert peak.versions <= rests[0].versions + EVERY + 20
        assert peak.fragments <= EVERY + 10
        assert peak.file_count <= 4 * (EVERY + 30)
        assert rest.versions <= 10
        assert rest.fragments <= 5
        assert rest.file_count <= 40
        assert rest.rows <= 20 * MEMORIES


def refresh_often(world: World) -> None:
    for number in range(EVERY):
        changed = f"m{number % MEMORIES}"
        world.do_tx([{"op": "revise", "id": changed, "text": f"text at {world.now()}"}])
        assert world.do_run()["reason"] == "published"
