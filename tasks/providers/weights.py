"""The files that shape the vectors of a packaged model: exactly the ones that were measured.

A package on an index can be replaced by its maintainer; other weights under the same name would
mix with vectors that are already served. So every file is hashed when its embedder is made, and
the digests are part of the revision, hence of the serving generation.
"""

import hashlib
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from tasks.providers.setup import ProviderSetupError


class EmbedderSetupError(ProviderSetupError):
    """An embedder cannot be made: something is not installed, not set or not what it should be."""

    code = "embedder_setup"
    role = "embedder"


def verify_package(embedder: str, package: str, version: str) -> None:
    """Refuse to go on without exactly this version of a package.

    Raises:
        EmbedderSetupError: It is not installed, or in another version.
    """
    try:
        found = distribution(package).version
    except PackageNotFoundError:
        found = "none"
    if found != version:
        reason = f"{package} {version} is needed, found {found}"
        raise EmbedderSetupError(embedder, reason)


def verify_weights(embedder: str, package: str, digests: Mapping[str, str]) -> None:
    """Refuse to go on with other files than those of these SHA-256 digests, by path in a package.

    Raises:
        EmbedderSetupError: A file is missing or another one.
    """
    installed = distribution(package)
    for name, digest in digests.items():
        path = Path(str(installed.locate_file(name)))
        if not path.is_file():
            raise EmbedderSetupError(embedder, f"{package} has no file {name}")
        if _hash_file(path) != digest:
            raise EmbedderSetupError(embedder, f"{name} of {package} is not the expected file")


def describe_revision(version: str, digests: Mapping[str, str]) -> str:
    """Write a revision: the version of the package and the digests of its files."""
    files = (f"{Path(name).name}=sha256:{digest}" for name, digest in digests.items())
    return " ".join([version, *files])


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
