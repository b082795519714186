"""Named SQL statements: read from .sql files inside the packages, never written in Python."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: ([a-z][a-z0-9_]*)$", re.MULTILINE)


@cache
def read_statements(package: str, file: str) -> Mapping[str, str]:
    """Read the statements of one .sql file by name.

    Args:
        package: The package that ships the file, such as ``storage.sql``.
        file: The file's stem.

    Raises:
        ValueError: A name occurs twice, or text stands before the first name.
    """
    text = files(package).joinpath(f"{file}.sql").read_text(encoding="utf-8")
    head, *rest = _NAME.split(text)
    names, bodies = rest[::2], rest[1::2]
    if head.strip() or len(set(names)) != len(names):
        message = f"{package}/{file}.sql: every statement needs one unique name"
        raise ValueError(message)
    return {name: body.strip() for name, body in zip(names, bodies, strict=True)}
