"""Keep marks: the normalised words in tags and metadata that say "do not remove this".

They are computed once, when tags or metadata are written, so that a rule over a million memories
never parses JSON. Which marks protect from which job is the rules' business, not ours.
"""

from collections.abc import Iterable, Mapping

# DESIGN 10.5: rules trim exactly these.
BLANKS = " \t\n\v\f\r"
_TAG_WORDS = frozenset({"keep", "pinned", "protected", "consolidated", "conflict"})
_FLAG_KEYS = frozenset({"keep", "pinned", "protected"})
_TRUE_WORDS = frozenset({"1", "true", "yes", "keep", "pinned", "protected"})
_LINK_KEYS = frozenset({"supersedes", "conflicts_with"})


def find_marks(tags: Iterable[str], metadata: Mapping[str, str]) -> list[str]:
    """Find the keep marks of a memory, sorted, such as ``["tag:keep", "metadata:pinned"]``.

    Source: spec/prune.md R5, spec/sweep.md R6. A word matches only as a whole, after trimming and
    lower-casing A-Z; a word with any non-ASCII character matches nothing.
    """
    found = {f"tag:{word}" for tag in tags if (word := _normalise(tag)) in _TAG_WORDS}
    for key, value in metadata.items():
        word = _normalise(key)
        is_flag = word in _FLAG_KEYS and _normalise(value) in _TRUE_WORDS
        is_link = word in _LINK_KEYS and bool(value.strip(BLANKS))
        if is_flag or is_link:
            found.add(f"metadata:{word}")
    return sorted(found, key=lambda mark: (mark.startswith("metadata:"), mark))


def _normalise(word: str) -> str:
    trimmed = word.strip(BLANKS)
    return trimmed.lower() if trimmed.isascii() else ""
