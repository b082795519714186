"""Random namespaces and policies for Hypothesis, as vector rows: small, and full of edges.

Instants, words and numbers come from pools that hold the borders of the rules, so that equal
times, ties and rows just inside or outside a window are common.
"""

from collections.abc import Callable

from helpers.rows import NOW
from helpers.vectors import Json
from hypothesis import strategies as st
from oracles.rows import DAY_US, format_instant, parse_instant

from storage.models import RelationKind

NOW_US = parse_instant(NOW.isoformat())
_HOUR_US = 3_600_000_000
_HERE = {"tenant": "t1", "principal": "p1", "scope": "s1"}
_BORDERS = (0, _HOUR_US, DAY_US, 30 * DAY_US, 90 * DAY_US, 180 * DAY_US)
_POOL = [
    format_instant(NOW_US - age_us)
    for age_us in (
        *(border + step for border in _BORDERS for step in (-1, 0, 1)),
        *(days * DAY_US + days for days in range(-20, 400, 20)),
    )
]
_INSTANTS = st.one_of(
    st.sampled_from(_POOL),
    st.integers(-40 * DAY_US, 400 * DAY_US).map(lambda age_us: format_instant(NOW_US - age_us)),
)
_RARE_INSTANTS = st.sampled_from([None] * 2 * len(_POOL) + _POOL)
_WORDS = ("keep", " KEEP\t", "Pinned", "PİNNED", "\u212aeep", "keepsake", "protected\u00a0", "")
_TAGS = st.sampled_from(
    [
        *[[]] * 16,
        *([word] for word in (*_WORDS, "consolidated", "Conflict ", "\vprotected")),
        ["keepsake", "keep"],
        ["Keep", "keep", "conflict", "CONSOLIDATED"],
    ]
)
_KEYS = ("keep", "Keep ", "pinned", "kėep", "supersedes", "conflicts_with", "note")
_VALUES = ("true", " YES\r", "1", "no", "", " \f", "tr\u00fce", "x", "protected")
_METADATA = st.sampled_from(
    [*[{}] * 90, *({key: value} for key in _KEYS for value in _VALUES), {"KEEP": "no", "keep": "1"}]
)
_UNIT = st.one_of(
    st.sampled_from([0.0, 0.1, 0.2, 0.49999997, 0.49999999999999994, 0.5, 0.7, 0.9, 1.0]),
    st.floats(0, 1, width=32),
)
_SALIENCE = st.one_of(
    st.sampled_from([None, None, None, 0.0, 0.25, 1.0, 2.0, -0.5, "NaN", "Infinity"]),
    st.floats(0.25, 2, width=32),
)
_COUNTS = st.sampled_from([0, 0, 1, 2, 3, 50, 2**31, 2**40])
_STATUSES = st.sampled_from(
    [*["active"] * 6, "candidate", "superseded", "superseded", "conflicted", "tombstoned"]
)
_KINDS = st.sampled_from(["episodic", "episodic", "semantic", "procedural", "working"])
_EDGES = st.sampled_from(
    ["supersedes", "supersedes", "superseded_by", "conflicts_with", "related_to"]
)
_ROW = st.fixed_dictionaries(
    {
        "kind": _KINDS,
        "status": _STATUSES,
        "revision": st.integers(1, 2),
        "importance": _UNIT,
        "salience": _SALIENCE,
        "tags": _TAGS,
        "metadata": _METADATA,
        "pinned": st.sampled_from([False, False, False, False, False, True]),
        "created_at": _INSTANTS,
        "content_at": _RARE_INSTANTS,
        "restored_at": _RARE_INSTANTS,
        "tombstoned_at": _RARE_INSTANTS,
        "last_accessed_at": _RARE_INSTANTS,
        "expires_at": _RARE_INSTANTS,
        "access_count": _COUNTS,
        "actors": st.integers(0, 2),
        "scope": st.sampled_from(["s1", "s1", "s1", "s1", "s1", "s2"]),
        "prefix": st.sampled_from(["m", "M", "é", "😀", "\uffee"]),
    }
)
# An edge from one row to another one of the list, as far behind as the second number says.
_LINKS = st.lists(st.tuples(_EDGES, st.integers(0, 29), st.integers(1, 3)), max_size=12)


@st.composite
def namespaces(draw: Callable[..., object], *, max_rows: int = 30) -> list[Json]:
    """Draw the rows of a namespace and a few of another one; edges stand on both of their ends."""
    few = st.lists(_ROW, max_size=min(6, max_rows))
    drawn = draw(st.one_of(few, st.lists(_ROW, min_size=min(12, max_rows), max_size=max_rows)))
    assert isinstance(drawn, list)
    rows = [_finish(row, number) for number, row in enumerate(drawn)]
    links = draw(_LINKS) if len(rows) > 1 else []
    assert isinstance(links, list)
    for kind, place, distance in links:
        source = rows[place % len(rows)]
        target = rows[(place + distance) % len(rows)]
        if source is not target and source["namespace"] == target["namespace"]:
            _link(source, kind, target)
            _link(target, RelationKind(kind).inverse.value, source)
    return rows


def _finish(row: Json, number: int) -> Json:
    rest = {name: value for name, value in row.items() if name not in {"scope", "prefix"}}
    own = {"id": f"{row['prefix']}{number:02}", "namespace": _HERE | {"scope": row["scope"]}}
    return rest | own | {"relations": []}


def _link(source: Json, kind: str, target: Json) -> None:
    edge = {"kind": kind, "target_id": target["id"]}
    if edge not in source["relations"]:
        source["relations"].append(edge)


def settle(rows: list[Json]) -> list[Json]:
    """Give every superseded memory its status, as each operation that writes an edge does."""
    older = {
        (edge["target_id"] if edge["kind"] == "supersedes" else row["id"])
        for row in rows
        for edge in row["relations"]
        if edge["kind"] in {"supersedes", "superseded_by"}
    }
    return [row | {"status": "superseded"} if row["id"] in older else row for row in rows]


prune_policies = st.fixed_dictionaries(
    {
        "max_age_days": st.sampled_from([0, 1, 30, 90, 180]),
        "min_importance_to_keep": st.one_of(st.sampled_from([0.0, 0.5, 0.7, 1.0]), _UNIT),
        "max_items": st.sampled_from([0, 0, 1, 2, 3, 5, 8, 13]),
        "cap_order": st.sampled_from(["relevance", "importance_recency"]),
        "protect_curated": st.booleans(),
        "min_age_hours": st.sampled_from([0.0, 0.5, 1.0, 24.000000001, 1e13]),
        "mode": st.sampled_from(["tombstone", "delete"]),
    }
)
sweep_policies = st.fixed_dictionaries(
    {
        "cold_threshold": st.one_of(st.sampled_from([0.0, 0.2, 0.5, 1.0]), st.floats(0.01, 3)),
        "lambda_per_day": st.one_of(st.sampled_from([0.0, 0.02]), st.floats(0.001, 1)),
        "half_life_days": st.dictionaries(_KINDS, st.floats(0.5, 400), max_size=2),
        "sigma": st.one_of(st.sampled_from([0.0, 0.6]), st.floats(0.01, 5)),
        "mu": st.one_of(st.sampled_from([0.0, 0.04]), st.floats(0.001, 1)),
        "salience_default": st.sampled_from([0.25, 1.0, 1.3, 2.0]),
        "breadth_weight": st.sampled_from([0.0, 0.0, 0.2, 1.5]),
        "hard_delete_after_days": st.sampled_from([0, 1, 30, 180]),
        "evict_kinds": st.sets(st.sampled_from(["episodic", "procedural", "working"])).map(sorted),
        "ttl": st.sampled_from([True, True, False]),
    }
)
