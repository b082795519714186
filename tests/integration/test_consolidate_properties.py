"""What consolidation never does, whatever memories it finds: on real stores, by Hypothesis.

Each example is a namespace of its own in one store. Texts come in families around a common base,
each with some words more, so that copies, near duplicates, chains and contradictions are common.
"""

from collections.abc import Callable
from datetime import timedelta
from itertools import combinations
from typing import Any

import pytest
from helpers.merge_spaces import (
    MergeSpace,
    kept_fields,
    list_lineages,
    make_shared_store,
    open_space,
)
from helpers.rows import NOW
from helpers.vectors import Json
from hypothesis import given, settings
from hypothesis import strategies as st

from storage import Store
from storage.instants import format_instant
from storage.models import MemoryRecord, Status
from tasks.rules.normal_form import normal_form
from tasks.rules.pairs import PairResult, judge_pair
from tasks.rules.prepared import prepare
from tasks.rules.tokens import find_tokens, split_runs

_FAMILIES = (
    "alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima mike november",
    "the export job of the billing team writes 10 audit rows into a shared archive bucket",
    "the export job of the billing team writes 50 audit rows into a shared archive bucket",
)
_EXTRAS = ("today", "slowly", "again", "twice")
_SIGNS: tuple[Callable[[str], str], ...] = (
    str,
    str,
    str.capitalize,
    str.upper,
    "{}.".format,
    "- {} -".format,
)
_OUTSIDERS = ("harbour lights glow", "winter came early", "seven tall ships", "quiet green hills")
_quiet = settings(deadline=None, derandomize=True, database=None)
few, many = settings(_quiet, max_examples=20), settings(_quiet, max_examples=50)

_metadata = st.dictionaries(
    st.sampled_from(["source", "tools", "title", "api_key"]),
    st.sampled_from(["x", "y", "x, z"]),
    max_size=2,
)
_sources = st.lists(st.sampled_from(["manual", "tool_result", "session_turn"]), max_size=2)

pytestmark = pytest.mark.slow


def say_time(days: float) -> str:
    return format_instant(NOW - timedelta(days=days))


@st.composite
def texts(draw: st.DrawFn) -> str:
    words = draw(st.lists(st.sampled_from(_EXTRAS), unique=True, max_size=3))
    base = draw(st.sampled_from(_FAMILIES))
    sign = draw(st.sampled_from(_SIGNS))
    return sign(" ".join([base, *sorted(words)]))


@st.composite
def facts(draw: st.DrawFn, number: int) -> Json:
    """Draw everything of a memory but its text and its edges."""
    created = draw(st.sampled_from([9, 8, 7, 7, 6]))
    reads = draw(st.integers(0, 3))
    line: Json = {
        "id": f"m{number:02}",
        "kind": draw(st.sampled_from(["semantic"] * 4 + ["episodic", "procedural", "working"])),
        "importance": draw(st.sampled_from([0.25, 0.5, 0.75])),
        "confidence": draw(st.sampled_from([0.25, 0.75])),
        "salience": draw(st.sampled_from([None, 0.5, 1.5])),
        "pinned": draw(st.sampled_from([False, False, False, True])),
        "tags": draw(st.lists(st.sampled_from(["keep", "Keep", "ops"]), max_size=2)),
        "metadata": draw(_metadata),
        "created_at": say_time(created),
        "content_at": say_time(draw(st.sampled_from([created, 2.5]))),
        "expires_at": draw(st.sampled_from([None] * 5 + [say_time(-30)])),
        "access_count": reads,
        "last_accessed_at": say_time(1 + reads / 7) if reads else None,
    }
    evidence = [
        {
            "uri": f"e://{draw(st.sampled_from(['shared', line['id']]))}/{place}",
            "digest": "d",
            "kind": kind,
            "occurred_at": say_time(10),
        }
        for place, kind in enumerate(draw(_sources))
    ]
    return line | ({"evidence": evidence} if evidence else {})


@st.composite
def memories(draw: st.DrawFn, *, with_edges: bool = True) -> list[Json]:
    """Draw members of families, outsiders, superseded ancestors, and edges among all of them."""
    lines = [
        draw(facts(number)) | {"content": text}
        for number, text in enumerate(draw(st.lists(texts(), min_size=2, max_size=8)))
    ]
    members = [line["id"] for line in lines]
    for number, text in enumerate(_OUTSIDERS[: draw(st.integers(0, 2))]):
        lines.append(draw(facts(50 + number)) | {"content": text})
    alive = [line["id"] for line in lines]
    ancestors = [f"old{number}" for number in range(draw(st.integers(0, 2)))]
    for number, name in enumerate(ancestors):
        line = draw(facts(90 + number)) | {"id": name, "content": _OUTSIDERS[3 - number]}
        lines.append(line | {"status": "superseded"})
    drawn = draw(edges_among(members, alive, ancestors)) if with_edges else []
    for line in lines:
        own = [edge for edge in drawn if edge[0] == line["id"]]
        line["relations"] = [{"kind": kind, "target_id": target} for _, kind, target in own]
    return lines


@st.composite
def edges_among(
    draw: st.DrawFn, members: list[str], alive: list[str], ancestors: list[str]
) -> list[tuple[str, str, str]]:
    """Draw edges; a memory that supersedes another has no other edge with it."""
    ends = st.lists(st.sampled_from([*alive, *ancestors]), min_size=2, max_size=2, unique=True)
    heads = st.lists(st.sampled_from(members), max_size=3, unique=True)
    edges = {
        (min(pair), kind, max(pair))
        for kind in ("related_to", "conflicts_with")
        for pair in draw(st.lists(ends, max_size=4))
    }
    for name in ancestors:
        for head in draw(heads):
            edges = {edge for edge in edges if {edge[0], edge[2]} != {head, name}}
            edges.add((head, "supersedes", name))
    return sorted(edges)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Give one store for many namespaces."""
    return make_shared_store(tmp_path_factory.mktemp("properties"))


def fill(store: Store, lines: list[Json]) -> MergeSpace:
    space = open_space(store)
    space.bring(lines)
    return space


def passes(one: MemoryRecord, other: MemoryRecord) -> bool:
    """Tell whether two memories say the same, whatever their kinds."""
    left, right = (prepare(each.content, kind="semantic", namespace_id=0) for each in (one, other))
    return judge_pair(left, right).result in {PairResult.EXACT, PairResult.NEAR}


def say_all(space: MergeSpace) -> dict[str, Any]:
    return {name: one.model_dump() for name, one in space.read().items()}


@few
@given(data=st.data())
def test_the_order_of_import_changes_nothing(shared: Store, data: st.DataObject) -> None:
    lines = data.draw(memories())
    spaces = fill(shared, lines), fill(shared, data.draw(st.permutations(lines)))
    done = [space.consolidate(mode="plan") for space in spaces]
    plans = [space.read_plan(result) for space, result in zip(spaces, done, strict=True)]
    assert plans[0] == plans[1]
    for space in spaces:
        space.consolidate()
    assert say_all(spaces[0]) == say_all(spaces[1])


@few
@given(lines=memories())
def test_no_fact_disappears(shared: Store, lines: list[Json]) -> None:
    space = fill(shared, lines)
    before = space.read()
    result = space.consolidate()
    after = space.read()
    texts_after = space.read_all_texts()
    assert after.keys() == before.keys()
    for name, one in before.items():
        assert one.content in texts_after[name]
        if after[name].status == Status.SUPERSEDED != one.status:
            assert after[name].content == one.content
            (heir,) = {edge.target_id for edge in after[name].relations}
            kept = prepare(after[heir].content, kind="semantic", namespace_id=0)
            was = prepare(one.content, kind="semantic", namespace_id=0)
            assert kept.figures == was.figures
            assert set(one.tags) <= set(after[heir].tags)
            assert one.metadata.keys() <= after[heir].metadata.keys()
    space.undo(result.run_id)
    assert kept_fields(space.read()) == kept_fields(before)


@few
@given(lines=memories())
def test_clusters_are_cliques(shared: Store, lines: list[Json]) -> None:
    space = fill(shared, lines)
    before = space.read()
    result = space.consolidate()
    for canonical, *losers in list_lineages(space.read()).values():
        members = [before[name] for name in (canonical, *losers)]
        for one, other in combinations(members, 2):
            assert passes(one, other)
            assert one.expires_at == other.expires_at
            kinds = {edge.kind for edge in one.relations if edge.target_id == other.id}
            assert kinds <= {"related_to"}
        assert min(members, key=lambda one: (one.created_at, one.id)).id == canonical
    assert result.end.failed == 0


@few
@given(lines=memories())
def test_a_second_run_changes_nothing(shared: Store, lines: list[Json]) -> None:
    space = fill(shared, lines)
    space.consolidate()
    before = say_all(space)
    assert space.consolidate().end.outcome == "unchanged"
    assert say_all(space) == before


def test_a_promoted_memory_takes_in_no_more_than_its_cluster(shared: Store) -> None:
    """Kinds count in a lineage: the second run would merge what the first one kept apart."""
    base, created = _FAMILIES[0], say_time(9)
    told = [
        ("m1", f"{base} today", "semantic", 0.25),
        ("m2", f"{base} again today", "semantic", 0.75),
        ("m3", f"{base} again today", "episodic", 0.5),
        ("n1", f"{_FAMILIES[1]}", "episodic", 0.5),
        ("n2", f"{_FAMILIES[1]}", "semantic", 0.5),
        ("n3", f"{_FAMILIES[1]} today", "semantic", 0.25),
    ]
    names = ("id", "content", "kind", "importance")
    space = fill(
        shared, [dict(zip(names, one, strict=True)) | {"created_at": created} for one in told]
    )
    assert space.consolidate().end.applied == 2
    assert space.read()["n1"].kind == "semantic"
    assert space.consolidate().end.outcome == "unchanged"


@many
@given(lines=memories(with_edges=False), data=st.data())
def test_no_chain_forms_run_by_run(shared: Store, lines: list[Json], data: st.DataObject) -> None:
    """R42: memories come in one after the other, in any order, and each time a run merges them."""
    space = open_space(shared)
    first = {line["id"]: line["content"] for line in lines}
    waiting = data.draw(st.permutations(lines))
    while waiting:
        size = data.draw(st.integers(1, len(waiting)))
        space.bring(waiting[:size])
        waiting = waiting[size:]
        space.consolidate()
        for names in list_lineages(space.read()).values():
            said = [MemoryRecord(id=name, content=first[name]) for name in names]
            assert all(passes(one, other) for one, other in combinations(said, 2))
        assert space.consolidate().end.outcome == "unchanged"
    space.assert_sound()


@few
@given(lines=memories())
def test_an_undone_run_leaves_no_trace(shared: Store, lines: list[Json]) -> None:
    space = fill(shared, lines)
    before = space.read()
    done = space.consolidate()
    undone = space.undo(done.run_id)
    assert undone.end.applied == done.end.applied
    assert kept_fields(space.read()) == kept_fields(before)
    assert space.undo(done.run_id).end.outcome == "unchanged"
    assert space.consolidate().end.outcome == "unchanged"


@many
@given(lines=memories(), data=st.data())
def test_runs_are_undone_in_turn(shared: Store, lines: list[Json], data: st.DataObject) -> None:
    """Later memories make the merges of the first run losers of the second one."""
    kept = data.draw(st.sets(st.sampled_from([line["id"] for line in lines])))
    early = [line for line in lines if line["id"] in kept and not line["relations"]]
    named = {edge["target_id"] for line in lines for edge in line["relations"]}
    early = [line for line in early if line["id"] not in named]
    space = open_space(shared)
    states, runs = [], []
    for part in (early, [line for line in lines if line not in early]):
        if part:
            space.bring(part)
            states.append(kept_fields(space.read()))
            runs.append(space.consolidate().run_id)
    for state, run_id in zip(states[::-1], runs[::-1], strict=True):
        space.undo(run_id)
        now = kept_fields(space.read())
        assert {name: now[name] for name in state} == state
        space.assert_sound()


@many
@given(lines=memories(), data=st.data())
def test_losers_come_back_in_any_order(
    shared: Store, lines: list[Json], data: st.DataObject
) -> None:
    space = fill(shared, lines)
    before = space.read()
    space.consolidate()
    merged = space.read()
    losers = [name for name, one in merged.items() if one.status != before[name].status]
    for name in data.draw(st.permutations(losers)):
        assert space.part(name).end.applied == 1
        space.assert_sound()
        now = space.read()
        assert now[name].status == Status.ACTIVE
        assert_nothing_is_lost(before, now)
    assert kept_fields(space.read()) == kept_fields(before)


def assert_nothing_is_lost(before: dict[str, MemoryRecord], now: dict[str, MemoryRecord]) -> None:
    """Check that each memory says what it said, or is in one that stands for it."""
    assert now.keys() == before.keys()
    for name, one in before.items():
        if now[name].status == Status.SUPERSEDED:
            assert now[name].content == one.content
    active = {one.content for one in now.values() if one.status != Status.SUPERSEDED}
    tokens = {token for text in active for token in tokens_of(text)}
    assert tokens >= {
        token
        for name, one in before.items()
        if now[name].status != Status.SUPERSEDED
        for token in tokens_of(one.content)
        if name not in list_lineages(now)
    }


def tokens_of(text: str) -> frozenset[str]:
    return find_tokens(split_runs(normal_form(text)))
