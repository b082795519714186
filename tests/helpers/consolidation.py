"""The consolidation vectors, and the memories that their pairs are about."""

import json
from functools import cache
from typing import Any

import pytest
from helpers.vectors import VECTORS

from tasks.rules.prepared import Prepared, prepare

Json = dict[str, Any]


@cache
def load_consolidation() -> Json:
    """Load the vector file of consolidation."""
    text = (VECTORS / "consolidate-vectors.json").read_text(encoding="utf-8")
    found: Json = json.loads(text)
    return found


def cases(op: str) -> pytest.MarkDecorator:
    """Parametrise a test over the cases of one operation, which must exist; test ids are theirs."""
    found = [case for case in load_consolidation()["cases"] if case["op"] == op]
    assert found
    return pytest.mark.parametrize("case", found, ids=[case["id"] for case in found])


def prepare_side(given: Json, side: str) -> Prepared:
    """Prepare one of the two memories of a pair, `a` or `b`."""
    namespaces = sorted({given["ns_a"], given["ns_b"]})
    return prepare(
        given[side],
        kind=given[f"kind_{side}"],
        namespace_id=namespaces.index(given[f"ns_{side}"]),
    )
