"""Rows, instants and plans as the scalar rules see them; every instant is an int of UTC µs.

What prune and sweep share stands here once: clocks, words, lineage and limits.
"""

import math
import re
import struct
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple, TypedDict, cast

DAY_US = 86_400_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
BLANKS = " \t\n\v\f\r"
PIN_WORDS = frozenset({"keep", "pinned", "protected"})
TRUE_WORDS = frozenset({"1", "true", "yes", "keep", "pinned", "protected"})
BARE_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
INSTANT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2})(?::([0-9]{2})(?:\.([0-9]+))?)?"
    r"(?:Z|([+-])([01][0-9]|2[0-3]):?([0-5][0-9]))?"
)

Namespace = tuple[str, str, str]
Decision = dict[str, object]


class RowFields(TypedDict, total=False):
    """A vector row as written; absent fields come from the file's defaults."""

    namespace: dict[str, str]
    id: str
    kind: str
    status: str
    revision: int
    importance: float
    salience: float | str | None
    tags: list[str]
    metadata: dict[str, str]
    pinned: bool
    created_at: str
    content_at: str | None
    restored_at: str | None
    tombstoned_at: str | None
    last_accessed_at: str | None
    expires_at: str | None
    access_count: int
    relations: list[dict[str, str]]
    actors: int


class RowGroup(TypedDict):
    """`count` rows that differ in id and creation only."""

    count: int
    id_format: str
    created_at_start: str
    created_at_step_us: int
    row: RowFields


class Inputs(TypedDict, total=False):
    """The inputs of a vector case; each type of case uses some of them."""

    now: str
    policy: dict[str, object]
    limits: dict[str, object]
    rows: list[RowFields]
    row_groups: list[RowGroup]
    confirm_plan_id: str | None
    importance: float
    age_days_raw: float
    start: float | None
    signals: list[str]


class Case(TypedDict):
    """One case of a vector file."""

    id: str
    type: str
    inputs: Inputs
    expected: dict[str, object]


class Defaults(TypedDict):
    """What a vector file takes where a case says nothing."""

    now: str
    policy: dict[str, object]
    limits: dict[str, object]
    row: RowFields


class LimitFields(TypedDict):
    """The fields of SafetyLimits."""

    max_fraction: float
    max_rows: int | None
    min_rows_before_fraction: int


@dataclass(frozen=True, slots=True)
class Row:
    """A memory as stored: importance is already a 32-bit float, instants are µs."""

    namespace: Namespace
    id: str
    kind: str
    status: str
    revision: int
    importance: float
    salience: float | None
    tags: tuple[str, ...]
    metadata: dict[str, str]
    pinned: bool
    created_at: int
    content_at: int
    restored_at: int | None
    tombstoned_at: int | None
    last_accessed_at: int | None
    expires_at: int | None
    access_count: int
    relations: tuple[tuple[str, str], ...]
    actors: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What a rule decided; decisions stand in plan order, everything else is keyed by id."""

    decisions: list[Decision]
    verdicts: dict[str, str]
    figures: dict[str, dict[str, object]]
    counters: dict[str, int]
    warnings: list[str]
    protections: dict[str, list[str]]
    clock_anomaly: dict[str, list[str]]


class Clock(NamedTuple):
    """The age clock of a row: which field it is, and its instant."""

    field: str
    at: int


class Judgement(NamedTuple):
    """The answer of SafetyLimits; `limit` is set, too, where a confirmation lifted it."""

    allowed: int | None
    limit: str | None
    is_refused: bool


def f32(x: float) -> float:
    """Round to the nearest 32-bit float."""
    return cast("float", struct.unpack("<f", struct.pack("<f", x))[0])


def parse_instant(text: str, *, is_expiry: bool = False) -> int:
    """Read an instant; naive text is UTC, digits finer than a microsecond are cut off.

    Source: spec/sweep.md R3, R5; spec/repository.md R7.

    Args:
        text: Date and time with `T` or a blank between them; `Z`, an offset or neither.
        is_expiry: Accept a bare date, too: the end of that UTC day.

    Raises:
        ValueError: Any other text.
    """
    if is_expiry and BARE_DATE.fullmatch(text):
        return (date.fromisoformat(text) - EPOCH.date()).days * DAY_US + DAY_US
    match = INSTANT.fullmatch(text)
    if match is None:
        message = f"not an instant: {text!r}"
        raise ValueError(message)
    day, time, second, fraction, sign, hours, minutes = match.groups(default="")
    whole = datetime.fromisoformat(f"{day}T{time}:{second or '00'}+00:00")
    offset_us = (int(hours or 0) * 60 + int(minutes or 0)) * 60_000_000
    micros = (whole - EPOCH) // MICROSECOND + int(fraction[:6].ljust(6, "0"))
    return micros + offset_us if sign == "-" else micros - offset_us


def format_instant(at: int) -> str:
    """Write an instant as plans show it: UTC, six digits."""
    return f"{EPOCH + at * MICROSECOND:%Y-%m-%dT%H:%M:%S.%fZ}"


def rows_of(case: Case, defaults: Defaults) -> list[Row]:
    """Expand the rows and then the row groups of a case."""
    inputs = case["inputs"]
    rows = [_row({**defaults["row"], **given}) for given in inputs.get("rows", [])]
    for group in inputs.get("row_groups", []):
        rows += _group_rows(group, defaults["row"])
    return rows


def _group_rows(group: RowGroup, defaults: RowFields) -> list[Row]:
    start, step = parse_instant(group["created_at_start"]), group["created_at_step_us"]
    rows: list[Row] = []
    for i in range(group["count"]):
        created_at = format_instant(start + i * step)
        given: RowFields = {"id": group["id_format"] % i, "created_at": created_at}
        rows.append(_row({**defaults, **group["row"], **given}))
    return rows


def _row(fields: RowFields) -> Row:
    created_at, expires_at = parse_instant(fields["created_at"]), fields["expires_at"]
    content_at = _optional_instant(fields["content_at"])
    namespace, salience = fields["namespace"], fields["salience"]
    return Row(
        namespace=(namespace["tenant"], namespace["principal"], namespace["scope"]),
        id=fields["id"],
        kind=fields["kind"],
        status=fields["status"],
        revision=fields["revision"],
        importance=f32(fields["importance"]),
        salience=None if salience is None else float(salience),
        tags=tuple(fields["tags"]),
        metadata=dict(fields["metadata"]),
        pinned=fields["pinned"],
        created_at=created_at,
        content_at=created_at if content_at is None else content_at,
        restored_at=_optional_instant(fields["restored_at"]),
        tombstoned_at=_optional_instant(fields["tombstoned_at"]),
        last_accessed_at=_optional_instant(fields["last_accessed_at"]),
        expires_at=None if expires_at is None else parse_instant(expires_at, is_expiry=True),
        access_count=fields["access_count"],
        relations=tuple((edge["kind"], edge["target_id"]) for edge in fields["relations"]),
        actors=fields["actors"],
    )


def _optional_instant(text: str | None) -> int | None:
    return None if text is None else parse_instant(text)


def age_clock(row: Row) -> Clock:
    """Find the instant that the age counts from (spec/prune.md R6, spec/sweep.md R7)."""
    clock = Clock("created_at", row.created_at)
    for field, at in (("content_at", row.content_at), ("restored_at", row.restored_at)):
        if at is not None and at > clock.at:
            clock = Clock(field, at)
    return clock


def days_since(at: int, now: int) -> float:
    """Measure the days from an instant to now; the future is 0 days ago."""
    return max(now - at, 0) / 86400000000.0


def is_expired(row: Row, now: int) -> bool:
    """Tell whether reads hide the row: `expires_at <= now`."""
    return row.expires_at is not None and row.expires_at <= now


def word(text: str) -> str:
    """Trim and lower-case a word; one with non-ASCII characters becomes empty, it matches none."""
    return text.strip(BLANKS).lower() if text.isascii() else ""


def mark_tags(row: Row, words: AbstractSet[str]) -> set[str]:
    """Collect the tags that equal one of the words."""
    return {word(tag) for tag in row.tags} & words


def mark_keys(row: Row) -> set[str]:
    """Collect the metadata keys that pin the row with a true word."""
    keys = {word(key) for key, value in row.metadata.items() if word(value) in TRUE_WORDS}
    return keys & PIN_WORDS


def carry_ancestors(rows: Sequence[Row], heads: Sequence[str]) -> dict[str, list[str]]:
    """Give each head the superseded ancestors that leave with it.

    The least fixed point: a row is carried once all rows that supersede it are heads or carried,
    so a cycle never is. The last head, in the order given, of those that reach a row carries it;
    a head answers for itself and ends the walk from an earlier one.

    Source: spec/sweep.md R11; spec/prune.md R19.
    """
    targets = {row.id: _superseded_by(row) for row in rows}
    waits_for = Counter(target for edges in targets.values() for target in edges)
    free = {row.id for row in rows if row.status == "superseded"} - set(heads)
    rank = {head: position for position, head in enumerate(heads)}
    carries: dict[str, list[str]] = {head: [] for head in heads}
    queue = deque(heads)
    while queue:
        source = queue.popleft()
        for target in targets[source] & free:
            rank[target] = max(rank.get(target, 0), rank[source])
            waits_for[target] -= 1
            if waits_for[target] == 0:
                carries[heads[rank[target]]].append(target)
                queue.append(target)
    return {head: sorted(ancestors) for head, ancestors in carries.items()}


def _superseded_by(row: Row) -> set[str]:
    return {target for kind, target in row.relations if kind == "supersedes"}


def count_verdicts(verdicts: Iterable[str], names: Sequence[str]) -> dict[str, int]:
    """Count each verdict by name, the absent ones as 0."""
    counts = Counter(verdicts)
    return {name: counts[name] for name in names}


def judge_limits(
    limits: Mapping[str, object],
    *,
    visible: int,
    fraction_rows: int,
    all_rows: int,
    is_confirmed: bool | None,
) -> Judgement:
    """Hold a plan against SafetyLimits; a confirmation lifts them, one of another plan is refused.

    Source: spec/prune.md R18; spec/sweep.md R18.

    `fraction_rows` count for max_fraction, `all_rows` (carried ones included) for max_rows, which
    is judged first; `is_confirmed` is None without a confirmation.
    """
    fields = cast("LimitFields", limits)
    max_rows, allowed = fields["max_rows"], None
    if visible >= fields["min_rows_before_fraction"]:
        allowed = math.floor(fields["max_fraction"] * visible + 1e-9)
    limit = None
    if is_confirmed is False:
        limit = "confirm_plan_id"
    elif max_rows is not None and all_rows > max_rows:
        limit = "max_rows"
    elif allowed is not None and fraction_rows > allowed:
        limit = "max_fraction"
    return Judgement(allowed, limit, limit is not None and not is_confirmed)
