"""Which memories semantic search finds with the text that they have now.

A text that can never get a vector is no reason to wait, so it counts as served (DESIGN 10.18).
"""

from collections.abc import Collection

from storage.gateway import StoreReader
from storage.identities import name_record
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "served_texts")


def find_waiting(reader: StoreReader, namespace_id: int, ids: Collection[str]) -> set[str] | None:
    """Find the memories whose current text is not served yet; None: no generation is serving."""
    serving = reader.rows(_SQL["read_serving"], {"namespace_id": namespace_id})
    if not serving:
        return None
    partition, publication_id, profile = serving[0]
    about = {"namespace_id": namespace_id, "publication_id": publication_id, "ids": list(ids)}
    unserved = {
        name_record(profile, partition, memory_id, revision, digest): memory_id
        for memory_id, revision, digest in reader.rows(_SQL["list_unserved"], about)
    }
    failures = {"partition": partition, "record_ids": list(unserved)}
    never = {record_id for (record_id,) in reader.rows(_SQL["list_never_served"], failures)}
    return {memory_id for record_id, memory_id in unserved.items() if record_id not in never}
