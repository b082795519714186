"""What the profile ``memtend.near-duplicate.v2`` stores of a text, for joins to find pairs by.

Source: spec/consolidate.md R21, R22, R62.
"""

import hashlib
import unicodedata

from storage.duplicate_texts import KeyedValue, TokenisedText
from tasks.rules.figures import find_figures
from tasks.rules.keys import figure_key, polarity_key, slot_key
from tasks.rules.lists import ARTICLES, LISTS
from tasks.rules.normal_form import normal_form, without_invisible
from tasks.rules.tokens import find_tokens, fingerprint_key, list_units, split_runs

# Categories and case folding follow the Unicode version of Python (spec/consolidate.md 6).
PROFILE = f"memtend.near-duplicate.v2 {LISTS['version']} unicode {unicodedata.unidata_version}"
POLARITY, FIGURE, SLOT = "polarity", "figure", "slot"


def tokenise_text(content: str) -> TokenisedText:
    """Compute what is stored of one text; conflicts are looked for by its further keys (R33)."""
    runs = split_runs(normal_form(content))
    units = [unit for unit in list_units(runs) if unit not in ARTICLES]
    fingerprint = " ".join(runs)
    keys = {
        POLARITY: (polarity_key(content), fingerprint),
        FIGURE: (figure_key(units), " ".join(sorted(find_figures(content)))),
        SLOT: (slot_key(units), units[-1] if units else ""),
    }
    return TokenisedText(
        tokens=find_tokens(runs),
        fingerprint=fingerprint_key(fingerprint),
        text=_digest(without_invisible(content)),
        keys={
            kind: KeyedValue(_digest(key), _digest(value))
            for kind, (key, value) in keys.items()
            if key is not None
        },
    )


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
