"""Keyed fingerprints of what was erased: they tell that it is back, and nothing else.

The key is the store's own secret, in a file that only its owner reads; it is made with the first
erasure. Source: DESIGN 6, 10.11.
"""

import hashlib
import hmac
import os
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import pyarrow as pa

from storage.errors import MaintenanceError, StorageError
from storage.fingerprints import fingerprint
from storage.fresh import new_uuid
from storage.gateway import StoreReader
from storage.namespaces import read_namespace
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "erasure_keys")

KEY_FILE = "memory.key"
_KEY_BYTES = 32
_DOMAIN = "memtend.erasure.v1"
_TOKEN_DIGITS = 32
_SCHEMA = pa.schema([("subject", pa.string()), ("fingerprint", pa.string())])

Subject = Literal["id", "content"]


class ErasedMemoryError(MaintenanceError):
    """A memory was erased, or says what was erased: it does not come back."""

    code = "suppressed"

    def __init__(self, memory_id: str) -> None:
        """Name the id that was to be written."""
        super().__init__(
            f"memory {memory_id!r}: suppressed: erased", memory_id=memory_id, reason="erased"
        )


class Said(NamedTuple):
    """What somebody wants to write: an id, and the contents under it, earlier ones too."""

    memory_id: str
    contents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Keyer:
    """Makes the fingerprints of one namespace."""

    key: bytes
    namespace_key: str

    def sign_id(self, memory_id: str) -> str:
        """Fingerprint an id."""
        return self._sign("id", memory_id)

    def sign_content(self, content: str) -> str:
        """Fingerprint a content, whatever its case, blanks and punctuation; short ones as is."""
        folded = fingerprint(content)
        if folded is None:
            folded = unicodedata.normalize("NFC", content.strip())
        return self._sign("content", folded)

    def name_token(self, memory_id: str) -> str:
        """Name what stands in the place of an erased id where a row has to stay."""
        return f"erased-{self._sign('token', memory_id)[:_TOKEN_DIGITS]}"

    def _sign(self, subject: str, text: str) -> str:
        parts = (_DOMAIN, self.namespace_key, subject)
        said = b"\0".join(
            [*(part.encode() for part in parts), hashlib.sha256(text.encode()).digest()]
        )
        return hmac.digest(self.key, said, "sha256").hex()


def ensure_key(store_path: Path) -> bytes:
    """Read the key of a store, or make it; the caller holds the store's write lock."""
    file = store_path / KEY_FILE
    if not has_key(store_path):
        # Three random uuids hold more than the 256 bits that are taken of them.
        drawn = "".join(new_uuid() for _ in range(3))
        fresh = file.with_name(f"{KEY_FILE}.new")
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as sink:
            sink.write(hashlib.sha256(drawn.encode()).hexdigest() + "\n")
            sink.flush()
            os.fsync(sink.fileno())
        fresh.replace(file)
    return read_key(store_path)


def has_key(store_path: Path) -> bool:
    """Tell whether the store has a key, so whether anything was ever erased."""
    return (store_path / KEY_FILE).exists()


def read_key(store_path: Path) -> bytes:
    """Read the key of a store.

    Raises:
        StorageError: It is missing or damaged; what was erased cannot be told from what was not.
    """
    try:
        key = bytes.fromhex((store_path / KEY_FILE).read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        message = f"{KEY_FILE}, which tells what was erased, cannot be read"
        raise StorageError(message, cause=type(error).__name__) from None
    if len(key) != _KEY_BYTES:
        message = f"{KEY_FILE}, which tells what was erased, is damaged"
        raise StorageError(message)
    return key


def find_erased(reader: StoreReader, namespace_id: int, said: Iterable[Said]) -> set[str]:
    """Find the ids that must not be written: erased themselves, or with a content that was.

    Raises:
        StorageError: The key is missing, and something was erased.
    """
    owner = {"namespace_id": namespace_id}
    if not reader.rows(_SQL["has_erasures"], owner)[0][0]:
        return set()
    keyer = _open_keyer(reader, namespace_id)
    names: dict[tuple[str, str], set[str]] = {}
    for memory_id, contents in said:
        names.setdefault(("id", keyer.sign_id(memory_id)), set()).add(memory_id)
        for content in set(contents):
            names.setdefault(("content", keyer.sign_content(content)), set()).add(memory_id)
    rows = [{"subject": subject, "fingerprint": mark} for subject, mark in names]
    incoming = pa.Table.from_pylist(rows, schema=_SCHEMA)
    found = reader.table(_SQL["find_marks"], owner, incoming=incoming).to_pylist()
    return {name for row in found for name in names[row["subject"], row["fingerprint"]]}


def refuse_all_erased(reader: StoreReader, namespace_id: int, contents: Mapping[str, str]) -> None:
    """Refuse memories, contents by id, of which one was erased or says what was.

    Raises:
        ErasedMemoryError: It is the first of them.
    """
    said = [Said(memory_id, (content,)) for memory_id, content in contents.items()]
    erased = find_erased(reader, namespace_id, said) if said else set()
    if erased:
        raise ErasedMemoryError(min(erased))


def _open_keyer(reader: StoreReader, namespace_id: int) -> Keyer:
    path = Path(str(reader.rows(_SQL["read_path"])[0][0])).parent
    return Keyer(read_key(path), read_namespace(reader, namespace_id).key)
