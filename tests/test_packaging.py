"""The four packages install under their own names, with their data, and next to nobody else's."""

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, metadata, packages_distributions
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("deployments", "flows", "storage", "tasks")


def is_installed() -> bool:
    try:
        metadata("memtend")
    except PackageNotFoundError:
        return False
    return True


needs_memtend = pytest.mark.skipif(not is_installed(), reason="memtend is not installed here")


@needs_memtend
@pytest.mark.parametrize("package", PACKAGES)
def test_package_belongs_to_nobody_else(package: str) -> None:
    """Another distribution with such a folder would overwrite ours without a word."""
    assert set(packages_distributions().get(package, [])) <= {"memtend"}


@needs_memtend
def test_distribution_cannot_be_uploaded_by_mistake() -> None:
    assert "Private :: Do Not Upload" in (metadata("memtend").get_all("Classifier") or [])


@pytest.mark.parametrize("package", PACKAGES)
def test_package_says_that_it_is_typed(package: str) -> None:
    assert files(package).joinpath("py.typed").is_file()


@pytest.mark.parametrize(
    ("package", "file"),
    [
        ("storage.sql", "plans.sql"),
        ("storage", "migrations/0001_create_store.sql"),
        ("tasks.rules", "prune.sql"),
        ("deployments", "data/sample.jsonl"),
    ],
)
def test_data_is_read_as_a_resource(package: str, file: str) -> None:
    assert files(package).joinpath(*file.split("/")).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel, without network and without a trace in the checkout."""
    if find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed here")
    folder = tmp_path_factory.mktemp("wheel")
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT)
    (built,) = folder.glob("*.whl")
    return built


def run(command: list[str], *, cwd: Path, **environ: str) -> str:
    done = subprocess.run(  # noqa: S603 - our own program, or the build backend
        command, cwd=cwd, env=os.environ | environ, check=True, capture_output=True, text=True
    )
    return done.stdout


def test_wheel_holds_all_files_of_the_packages(wheel: Path) -> None:
    sources = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    with ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == sources


@pytest.mark.slow
def test_unpacked_wheel_takes_the_tour(wheel: Path, tmp_path: Path) -> None:
    """Statements, migrations and sample are found without the checkout."""
    with ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    program = "from deployments.cli import main; main()"
    command = [sys.executable, "-c", program, "demo"]
    said = run(command, cwd=tmp_path, PYTHONPATH=str(tmp_path / "site"))
    assert "memtend run sweep" in said
