"""Tables in the house style."""

from rich import box
from rich.table import Column, Table


def make_table(*columns: str | Column) -> Table:
    """Make a table without a frame."""
    return Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)
