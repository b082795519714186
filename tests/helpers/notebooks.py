"""Notebooks in tests: read as they are stored, and executed without anybody at the screen."""

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from helpers.children import ROOT
from nbclient import NotebookClient

FOLDER = ROOT / "notebooks"
_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Executed:
    """An executed notebook: its plots as PNG, and what the probes found in the kernel."""

    plots: list[bytes]
    told: dict[str, Any]


def read_notebook(name: str) -> Any:  # noqa: ANN401 - a tree of JSON
    """Read a notebook as it is stored."""
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)  # type: ignore[no-untyped-call]


def execute_notebook(
    name: str, store_path: Path, scratch: Path, probes: Mapping[str, str] | None = None
) -> Executed:
    """Execute a notebook on the exports of a store.

    Args:
        name: The notebook.
        store_path: The directory of the store.
        scratch: Where the kernel keeps its own files.
        probes: Expressions by name that are evaluated in the kernel when all cells have run.
    """
    book = read_notebook(name)
    asked = ", ".join(f"{key!r}: {text}" for key, text in (probes or {}).items())
    probe = f"import json; print(json.dumps({{{asked}}}, default=str))"
    book.cells.append(nbformat.v4.new_code_cell(probe))  # type: ignore[no-untyped-call]
    client = NotebookClient(book, timeout=_TIMEOUT_S, kernel_name="python3")
    client.execute(
        cwd=str(FOLDER),
        env=os.environ
        | {
            "IPYTHONDIR": str(scratch),
            "MEMTEND_STORE": str(store_path),
            "PYTHONPATH": str(ROOT),
        },
    )
    (told,) = book.cells.pop().outputs
    outputs = [output for cell in book.cells for output in cell.get("outputs", [])]
    shown = [
        output.data["image/png"] for output in outputs if "image/png" in output.get("data", {})
    ]
    return Executed([base64.b64decode(plot) for plot in shown], json.loads(told.text))
