"""Every step case of the repository's vectors, on a real store."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from helpers.repository import expand, run_step

from storage import Store

_FILE = Path(__file__).parent.parent / "vectors" / "repository-vectors.json"
_CASES = [
    case
    for case in json.loads(_FILE.read_text(encoding="utf-8"))["cases"]
    if case["type"] == "steps"
]


def _shared(found: Any, expected: Any) -> Any:  # noqa: ANN401 - JSON
    """Cut what was found down to the fields that the case names."""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        return {key: _shared(found.get(key), value) for key, value in expected.items()}
    if isinstance(expected, list) and isinstance(found, list) and len(found) == len(expected):
        return [_shared(one, other) for one, other in zip(found, expected, strict=True)]
    return found


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in _CASES])
def test_steps_end_as_the_vectors_say(case: Mapping[str, Any], store: Store) -> None:
    for number, step in enumerate(case["steps"]):
        expected = expand(step["expect"])
        found = run_step(store, step)
        assert found.keys() == expected.keys(), (number, step["do"], found)
        assert _shared(found, expected) == expected, (number, step["do"])
