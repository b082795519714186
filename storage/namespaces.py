"""Namespaces of a store: the exact triple, its key, and the change sequence.

Every write that changes memories moves sequence and change_fence of its namespace once per
transaction, in one UPDATE.
"""

from dataclasses import dataclass

from storage.digests import namespace_key
from storage.gateway import StoreReader, StoreWriter
from storage.models import Namespace
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "namespaces")


@dataclass(frozen=True, slots=True)
class StoredNamespace:
    """A namespace with the number that the tables use for it."""

    namespace_id: int
    key: str
    namespace: Namespace


def list_namespaces(reader: StoreReader) -> list[StoredNamespace]:
    """List all namespaces of the store in byte order of their keys."""
    return [_from_row(row) for row in reader.rows(_SQL["list_namespaces"])]


def find_namespace(reader: StoreReader, namespace: Namespace) -> StoredNamespace | None:
    """Find a namespace by its exact triple."""
    rows = reader.rows(_SQL["find_namespace"], namespace.model_dump())
    return _from_row(rows[0]) if rows else None


def read_namespace(reader: StoreReader, namespace_id: int) -> StoredNamespace:
    """Read the namespace that a row of another table names."""
    return _from_row(reader.rows(_SQL["read_namespace"], {"namespace_id": namespace_id})[0])


def ensure_namespace(writer: StoreWriter, namespace: Namespace) -> StoredNamespace:
    """Find a namespace, or add it with sequence 0."""
    found = find_namespace(writer, namespace)
    if found is not None:
        return found
    params = {"namespace_key": namespace_key(namespace), **namespace.model_dump()}
    writer.execute(_SQL["insert_namespace"], params)
    return ensure_namespace(writer, namespace)


def step_sequence(writer: StoreWriter, namespace_id: int) -> None:
    """Move the change sequence of a namespace by one; once per transaction that changes it."""
    writer.execute(_SQL["step_sequence"], {"namespace_id": namespace_id})


def read_sequence(reader: StoreReader, namespace_id: int) -> int:
    """Read how many state-changing commits the namespace has seen."""
    return int(reader.rows(_SQL["read_sequence"], {"namespace_id": namespace_id})[0][0])


def _from_row(row: tuple[int, str, str, str, str]) -> StoredNamespace:
    namespace_id, key, tenant, principal, scope = row
    triple = Namespace.model_construct(tenant=tenant, principal=principal, scope=scope)
    return StoredNamespace(namespace_id, key, triple)
