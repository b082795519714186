"""The folder of public evaluation data, which tests may use and the project never needs."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from helpers.children import ROOT


def find_shared(name: str) -> Path:
    """Find a file of the folder that MEMTEND_SHARED names, or skip the test with the reason."""
    path = Path(os.environ.get("MEMTEND_SHARED", ROOT.parent / "shared")) / name
    if not path.is_file():
        pytest.skip(f"the folder named by MEMTEND_SHARED has no {name}")
    return path


def read_set(name: str) -> dict[str, Any]:
    """Read one of the durable-memory evaluation sets, unchanged."""
    path = find_shared(f"fixtures/a3s/durable-memory-{name}-v1.json")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found
