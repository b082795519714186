"""What searches for near vectors have found, so that a text is searched with once.

Of a partition, the texts that were compared are kept with how far down each knows its near
partners, and the pairs. Whoever stores replaces all of it, unless another run was first. A text
never changes under its number, nor does its vector under a serving generation.
Source: spec/consolidate.md R70, R71.
"""

from dataclasses import dataclass

import pyarrow as pa

from storage.gateway import StoreReader, StoreWriter
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "semantic_searches")

# floor_number: null where every partner at floor_cosine is known.
SEARCH_SCHEMA = pa.schema(
    [
        ("text_number", pa.int64()),
        ("floor_cosine", pa.float64()),
        ("floor_number", pa.int64()),
    ]
)
PAIR_SCHEMA = pa.schema(
    [
        ("text_number", pa.int64()),
        ("partner_number", pa.int64()),
        ("cosine", pa.float64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Searches:
    """What is known of the near vectors of a partition.

    Attributes:
        namespace_id: Whose memories the texts are of.
        partition: Under which generation their vectors are compared.
        revision: How often it was stored.
        searches: SEARCH_SCHEMA, one row a text, in order of numbers.
        pairs: PAIR_SCHEMA, the smaller number first, each pair once.
        others: How many searches of other partitions the namespace has.
    """

    namespace_id: int
    partition: str
    revision: int
    searches: pa.Table
    pairs: pa.Table
    others: int = 0


def read_searches(reader: StoreReader, namespace_id: int, partition: str) -> Searches:
    """Read what is known of a partition; of one that was never searched, nothing."""
    owner = {"namespace_id": namespace_id, "partition": partition}
    revisions = reader.rows(_SQL["read_revision"], {"partition": partition})
    searches = reader.table(_SQL["list_searches"], owner)
    count = reader.rows(_SQL["count_searches"], {"namespace_id": namespace_id})[0][0]
    return Searches(
        namespace_id=namespace_id,
        partition=partition,
        revision=revisions[0][0] if revisions else 0,
        searches=searches,
        pairs=reader.table(_SQL["list_pairs"], owner),
        others=count - searches.num_rows,
    )


def store_searches(writer: StoreWriter, known: Searches) -> bool:
    """Let this be what is known of a partition; what the namespace has of others goes.

    Texts that no active memory has any more are left out.

    Returns:
        False: since `known.revision` was read, another run has stored; nothing is changed then.
    """
    partition = {"partition": known.partition}
    writer.execute(_SQL["insert_state"], partition)
    if writer.execute(_SQL["step_state"], {**partition, "expected": known.revision}) != 1:
        return False
    owner = {**partition, "namespace_id": known.namespace_id}
    for statement, rows in (
        ("drop_searches", known.searches),
        ("insert_searches", known.searches),
        ("drop_pairs", known.pairs),
        ("insert_pairs", known.pairs),
    ):
        writer.insert(_SQL[statement], rows, owner)
    return True


def delete_searches(writer: StoreWriter, namespace_id: int) -> None:
    """Delete the rows of the memories in the temporary table `removed`; before those go."""
    for statement in ("delete_pairs", "delete_searches"):
        writer.execute(_SQL[statement], {"namespace_id": namespace_id})
