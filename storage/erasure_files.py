"""Search the files of a store for bytes that must be gone, and take its exports away.

The database file is opened while the store is closed only: to open and close it anywhere else would
drop the lock of this process (PLATFORM D9). All other files are read while others work. Compressed
bytes are not found; that an erased row is in no table is proved by reading both stores.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from storage.exports import EXPORT_DIRECTORY
from storage.gateway import DATABASE_FILE, Store

# Shorter texts are in any file by chance, and so is what has the same byte again and again.
_ANCHOR_BYTES = 8
_FEWEST_VALUES = 3
_LOOKED_AT = 512
_CHUNK_BYTES = 8 * 2**20
_STARTS = 2**16


@dataclass(frozen=True, slots=True)
class Scan:
    """What was read, how many needles were looked for, and where which of them were found."""

    needles: int
    files: int
    byte_count: int
    found: dict[bytes, tuple[str, ...]]


def remove_exports(store_path: Path) -> int:
    """Remove what notebooks read, until a health run writes it anew; tell how many files it was."""
    count = 0
    folder = store_path / EXPORT_DIRECTORY
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        if file.is_file():
            with suppress(FileNotFoundError):
                file.unlink()
                count += 1
    return count


def digest_files(store_path: Path, names: Iterable[str]) -> dict[str, str]:
    """Digest files of a store by name; those that are gone are left out."""
    found = {}
    for name in sorted(set(names)):
        with suppress(FileNotFoundError), (store_path / name).open("rb") as file:
            found[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def scan_files(store: Store, needles: Collection[bytes]) -> Scan:
    """Search every file of a store; nobody else reads or writes its database meanwhile.

    Needles of less than eight bytes, or of hardly any different ones, are not looked for.

    Raises:
        StoreBusyError: Others held the store for too long.
    """
    index = _Needles(needles)
    with store.closed():
        looked = _look_into(index, store.path.glob(f"{DATABASE_FILE}*"))
    others = (
        file
        for file in store.path.rglob("*")
        if file.parent != store.path or not file.name.startswith(DATABASE_FILE)
    )
    looked |= _look_into(index, others)
    found: dict[bytes, list[str]] = {}
    for file in sorted(looked):
        for needle in looked[file].needles:
            found.setdefault(needle, []).append(file.relative_to(store.path).as_posix())
    return Scan(
        needles=index.count,
        files=len(looked),
        byte_count=sum(one.byte_count for one in looked.values()),
        found={needle: tuple(names) for needle, names in found.items()},
    )


class _Looked(NamedTuple):
    byte_count: int
    needles: set[bytes]


def _look_into(index: "_Needles", files: Iterable[Path]) -> dict[Path, _Looked]:
    looked = {}
    for file in files:
        with suppress(FileNotFoundError):
            if file.is_file():
                looked[file] = _Looked(file.stat().st_size, index.find_in(file))
    return looked


class _Needles:
    """Byte strings by eight bytes of each that are rare, so that one pass finds any of them."""

    def __init__(self, needles: Collection[bytes]) -> None:
        """Index the needles that are long enough and not all the same byte."""
        self._by_anchor: dict[int, list[tuple[int, bytes]]] = {}
        self.count = self._longest = 0
        for needle in set(needles):
            offset = _choose_anchor(needle)
            if offset is None:
                continue
            anchor = int.from_bytes(needle[offset : offset + _ANCHOR_BYTES], "little")
            self._by_anchor.setdefault(anchor, []).append((offset, needle))
            self._longest = max(self._longest, len(needle))
            self.count += 1
        self._anchors = np.array(sorted(self._by_anchor), dtype=np.uint64)
        self._starts = np.zeros(_STARTS, dtype=np.bool_)
        self._starts[(self._anchors % np.uint64(_STARTS)).astype(np.int64)] = True

    def find_in(self, file: Path) -> set[bytes]:
        """Find the needles that a file has."""
        found: set[bytes] = set()
        if not self.count:
            return found
        tail = b""
        with file.open("rb") as source:
            while chunk := source.read(_CHUNK_BYTES):
                data = tail + chunk
                found.update(self._search(data))
                tail = data[-(self._longest - 1) :]
        return found

    def _search(self, data: bytes) -> Iterator[bytes]:
        for place, anchor in self._find_anchors(data):
            for offset, needle in self._by_anchor[anchor]:
                if place >= offset and data.startswith(needle, place - offset):
                    yield needle

    def _find_anchors(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Find where an anchor stands: by two of its bytes first, then by all."""
        held = np.frombuffer(data, dtype=np.uint8)
        last = len(held) - _ANCHOR_BYTES + 1
        if last < 1:
            return
        pairs = held[:last].astype(np.uint16)
        pairs |= held[1 : last + 1].astype(np.uint16) << np.uint16(8)
        (places,) = np.nonzero(self._starts[pairs])
        words: npt.NDArray[np.uint64] = np.zeros(len(places), dtype=np.uint64)
        for shift in range(_ANCHOR_BYTES):
            words |= held[places + shift].astype(np.uint64) << np.uint64(8 * shift)
        is_anchor = np.isin(words, self._anchors)
        yield from zip(places[is_anchor].tolist(), words[is_anchor].tolist(), strict=True)


def _choose_anchor(needle: bytes) -> int | None:
    """Choose eight bytes of a needle that files hardly have: no zeros first, many values."""

    def rate(offset: int) -> tuple[bool, int]:
        return all(needle[offset : offset + 2]), len(set(needle[offset : offset + _ANCHOR_BYTES]))

    offsets = range(min(len(needle) - _ANCHOR_BYTES + 1, _LOOKED_AT))
    best = max(offsets, key=rate, default=None)
    return best if best is not None and rate(best)[1] >= _FEWEST_VALUES else None
