"""Synthetic memories of one namespace, the same for every machine, and the files peers read.

The rows look like a store after months of nightly upkeep: many young memories, few old ones, and
the old ones mostly semantic, important or both; they lie in the order of their creation. The sweep
finds 2.7 % of them (cold ones, and a few that expired or are due), the prune 0.9 % stale and, under
`cap`, 1 % over the cap. There are no relations.
"""

import math
import os
import random
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from storage import create_store
from storage.instants import epoch_us
from storage.memories import MEMORY_SCHEMA, insert_memories
from storage.models import DEFAULT_NAMESPACE
from storage.namespaces import ensure_namespace
from storage.queries import read_statements

NOW = datetime(2026, 9, 30, tzinfo=UTC)
NOW_US = epoch_us(NOW)
DAY_US = 86_400_000_000
OLDEST_US = 400.0 * DAY_US
THINNING_US = 55.0 * DAY_US
SETTLED_US = 75 * DAY_US
LONGEST_TTL_US = 60.0 * DAY_US
WORDS = 18
_WORD_BITS = 14
_BATCH_ROWS = 50_000
_SYLLABLES = [consonant + vowel for consonant in "bcdfghjklmnprstvwxyz" for vowel in "aeiou"]
_INSTANT = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class Seed:
    """The same rows in the three forms that implementations start from, under one directory."""

    directory: Path
    rows: int

    @property
    def store(self) -> Path:
        """Give the store of memtend; a process that writes works on a copy."""
        return self.directory / "store"

    @property
    def sqlite(self) -> Path:
        """Give the SQLite file."""
        return self.directory / "memories.sqlite"

    @property
    def arrow(self) -> Path:
        """Give the Arrow file; instants are integers of UTC microseconds there and in SQLite."""
        return self.directory / "memories.arrow"

    @property
    def cap(self) -> int:
        """Give the cap that about 1 % of the rows are over, once the stale rows are gone."""
        return round(0.961 * self.rows)


def seed_rows(directory: Path, rows: int) -> Seed:
    """Write a store, a SQLite file and an Arrow file of the same memories."""
    seed = Seed(directory, rows)
    memories = make_memories(rows)
    store = create_store(seed.store, clock=NOW)[0]
    with store.write() as writer:
        ensure_namespace(writer, DEFAULT_NAMESPACE)
        insert_memories(writer, memories)
    plain = pa.table([_as_plain(column) for column in memories.columns], memories.column_names)
    with pa.OSFile(str(seed.arrow), "wb") as file, pa.ipc.new_file(file, plain.schema) as sink:
        sink.write_table(plain, max_chunksize=_BATCH_ROWS)
    _write_sqlite(seed, plain)
    return seed


def copy_seed(seed: Seed, directory: Path) -> Seed:
    """Copy the files of a seed for a process that writes; the Arrow file is linked.

    The copies are on disk before this returns, or else the first commit would pay for them.
    """
    own = Seed(directory, seed.rows)
    own.store.mkdir()
    own.arrow.symlink_to(seed.arrow)
    for source in (seed.sqlite, *seed.store.iterdir()):
        with (
            source.open("rb") as file,
            (directory / source.relative_to(seed.directory)).open("wb") as copy,
        ):
            shutil.copyfileobj(file, copy, 1 << 20)
            copy.flush()
            os.fsync(copy.fileno())
    return own


def _as_plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def _write_sqlite(seed: Seed, plain: pa.Table) -> None:
    sql = read_statements("benchmarks", "sqlite")
    names = plain.column_names
    with closing(sqlite3.connect(seed.sqlite)) as connection:
        connection.executescript(sql["create_tables"])
        for batch in plain.to_batches(max_chunksize=_BATCH_ROWS):
            rows = zip(*(batch.column(name).to_pylist() for name in names), strict=True)
            connection.executemany(sql["insert_memory"], rows)
        connection.commit()
        connection.execute(sql["analyze"])


def make_memories(rows: int) -> pa.Table:
    """Make MEMORY_SCHEMA rows; the same number gives the same rows."""
    age = _make_ages(rows)
    created = pc.subtract(pa.scalar(NOW_US), age)
    is_settled = pc.greater(age, SETTLED_US)
    rewritten = pc.subtract(pa.scalar(NOW_US), _scale(_uniform("rewrite", rows), age))
    content_at = pc.if_else(_share("rewritten", rows, 0.05), rewritten, created)
    is_read = _share("read", rows, 0.40)
    accessed = pc.subtract(pa.scalar(NOW_US), _scale(_uniform("access", rows), age))
    count = pc.add(_scale(_uniform("count", rows), 20.0), 1)
    is_kept = _share("kept", rows, 0.02)
    columns = {
        "namespace_id": _constant(1, rows),
        "id": _make_ids(rows),
        "revision": _constant(1, rows),
        "revision_kind": _constant("created", rows),
        "kind": _make_kinds(is_settled, rows),
        "content": _make_texts(rows),
        "confidence": _uniform("confidence", rows),
        "importance": _make_importance(is_settled, rows),
        "salience": _only(_share("scored", rows, 0.10), _add(_uniform("salience", rows), 0.5)),
        "tags": pc.if_else(is_kept, '["deploy","keep"]', '["deploy"]'),
        "metadata": _constant('{"source":"chat"}', rows),
        "pinned": _share("pinned", rows, 0.01),
        "marks": pc.if_else(is_kept, '["tag:keep"]', "[]"),
        "created_at": created,
        "updated_at": content_at,
        "content_at": content_at,
        "restored_at": _constant(None, rows),
        "last_accessed_at": _only(is_read, accessed),
        "access_count": pc.if_else(is_read, count, 0),
        "origin": _constant("store_api", rows),
        "origin_digest": _constant(None, rows),
        **_make_ends(age, created, rows),
    }
    fields = [
        columns[name].cast(pa.int64() if _is_instant(name) else MEMORY_SCHEMA.field(name).type)
        for name in MEMORY_SCHEMA.names
    ]
    return pa.table(fields, names=MEMORY_SCHEMA.names).cast(MEMORY_SCHEMA)


def _make_ages(rows: int) -> pa.Array:
    """Give ages of up to 400 days, oldest first, that thin out by a factor of e every 55 days."""
    newest = pc.multiply(_uniform("age", rows), 1 - math.exp(-OLDEST_US / THINNING_US))
    ages = _scale(pc.ln(pc.subtract(1, newest)), -THINNING_US)
    return ages.take(pc.array_sort_indices(ages, order="descending"))


def _is_instant(name: str) -> bool:
    return bool(MEMORY_SCHEMA.field(name).type == _INSTANT)


def _make_ends(age: pa.Array, created: pa.Array, rows: int) -> dict[str, pa.Array]:
    """Give 2 % superseded rows and tombstones, and a TTL of up to 60 days to 5 % of the rows.

    What expired more than six hours ago is gone already.
    """
    pick = _uniform("status", rows)
    is_tombstoned = pc.less(pick, 0.01)
    status = pc.if_else(
        is_tombstoned, "tombstoned", pc.if_else(pc.less(pick, 0.02), "superseded", "active")
    )
    buried = pc.subtract(pa.scalar(NOW_US), _scale(_uniform("buried", rows), age))
    expires = pc.add(created, _scale(_uniform("ttl", rows), LONGEST_TTL_US))
    may_expire = pc.and_(_share("mortal", rows, 0.05), pc.greater(expires, NOW_US - DAY_US // 4))
    return {
        "status": status,
        "tombstoned_at": _only(is_tombstoned, buried),
        "expires_at": _only(may_expire, expires),
    }


def _make_kinds(is_settled: pa.Array, rows: int) -> pa.Array:
    pick = _uniform("kind", rows)
    is_episodic = pc.less(pick, pc.if_else(is_settled, 0.16, 0.60))
    others = pc.if_else(
        pc.less(pick, 0.90), "semantic", pc.if_else(pc.less(pick, 0.96), "procedural", "working")
    )
    return pc.if_else(is_episodic, "episodic", others)


def _make_importance(is_settled: pa.Array, rows: int) -> pa.Array:
    value = _uniform("importance", rows)
    is_high = pc.and_(is_settled, pc.invert(_share("unimportant", rows, 0.15)))
    return pc.if_else(is_high, _add(pc.multiply(value, 0.5), 0.5), value)


def _make_ids(rows: int) -> pa.Array:
    text = random.Random("memtend:id").randbytes(16 * rows).hex()  # noqa: S311 - made-up data
    return pa.array([text[start : start + 32] for start in range(0, 32 * rows, 32)], pa.string())


def _make_texts(rows: int) -> pa.Array:
    """Join words whose frequency falls as 1 / rank (Zipf), about 6 letters each."""
    buckets = 1 << _WORD_BITS
    ranks = [int(20_000 ** (bucket / buckets)) - 1 for bucket in range(buckets)]
    vocabulary = pa.array([_spell(rank) for rank in ranks], pa.string())
    picks = (_random_numbers(f"word{place}", rows, pa.uint16()) for place in range(WORDS))
    words = [vocabulary.take(pc.bit_wise_and(pick, buckets - 1)) for pick in picks]
    return pc.binary_join_element_wise(*words, " ")


def _spell(rank: int) -> str:
    word = ""
    while rank or not word:
        rank, place = divmod(rank, len(_SYLLABLES))
        word += _SYLLABLES[place]
    return word


def _random_numbers(name: str, rows: int, kind: pa.DataType) -> pa.Array:
    data = random.Random(f"memtend:{name}").randbytes(rows * kind.bit_width // 8)  # noqa: S311
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(data)])


def _uniform(name: str, rows: int) -> pa.Array:
    return pc.divide(_random_numbers(name, rows, pa.uint32()).cast(pa.float64()), float(2**32))


def _share(name: str, rows: int, share: float) -> pa.Array:
    return pc.less(_uniform(name, rows), share)


def _scale(share: pa.Array, limit: object) -> pa.Array:
    return pc.floor(pc.multiply(share, limit)).cast(pa.int64())


def _add(values: pa.Array, step: float) -> pa.Array:
    return pc.add(values, step)


def _only(condition: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(condition, values, pa.scalar(None, values.type))


def _constant(value: object, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(value), rows)
