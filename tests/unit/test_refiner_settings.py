"""How a refiner is found by name, and what it reads of the environment; no value is repeated."""

import sys
import traceback

import pytest

from flows.edge import choose_refiner
from storage.settings import Settings
from tasks.providers.refiners import RefinerSetupError, load_refiner

CANARY = "5c1d"
ENVIRON = {
    "MEMTEND_REFINER_URL": "http://127.0.0.1:9/v1",
    "MEMTEND_REFINER_MODEL": "writer-v1",
    "MEMTEND_REFINER_KEY": "sk-canary-5c1d",
}


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("URL", ""),
        ("URL", "127.0.0.1:80/v1"),
        ("URL", "http://user:canary-5c1d@127.0.0.1/v1"),
        ("URL", "http://127.0.0.1/v1?key=canary-5c1d"),
        ("MODEL", " canary-5c1d"),
        ("REVISION", "canary-5c1d\n"),
        ("KEY", "canary-5c1d\r\nx: y"),
    ],
)
def test_wrong_variable_is_named_and_not_repeated(variable: str, value: str) -> None:
    name = f"MEMTEND_REFINER_{variable}"
    with pytest.raises(RefinerSetupError, match=name) as caught:
        load_refiner("openai", ENVIRON | {name: value})
    assert CANARY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("variable", ["URL", "MODEL"])
def test_missing_variable_is_named(variable: str) -> None:
    environ = {name: value for name, value in ENVIRON.items() if not name.endswith(variable)}
    with pytest.raises(RefinerSetupError, match=f"MEMTEND_REFINER_{variable}"):
        load_refiner("openai", environ)


def test_edge_chooses_what_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_refiner(Settings.from_env({}).refiner) is None
    environ = ENVIRON | {"MEMTEND_REFINER": "openai"}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    choice = choose_refiner(Settings.from_env(environ).refiner)
    assert choice is not None
    assert CANARY not in repr(choice)
    assert choice.load().identity.model_dump() == {
        "provider": "openai-compatible",
        "model": "writer-v1",
        "revision": "1",
    }


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nobody", "unknown"),
        ("no_such_module:make", "no_such_module is not installed"),
        ("helpers.refiners:nothing", "AttributeError"),
        ("builtins:object", "no identity"),
    ],
)
def test_name_of_no_refiner_is_refused(name: str, reason: str) -> None:
    with pytest.raises(RefinerSetupError, match=reason):
        load_refiner(name, {})


def test_host_may_bring_its_own() -> None:
    assert load_refiner("helpers.refiners:ScriptedRefiner", {}).identity.provider == "fixture"


def test_absent_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    for module in ("openai_refiner", "service"):
        monkeypatch.delitem(sys.modules, f"tasks.providers.{module}", raising=False)
    with pytest.raises(RefinerSetupError, match=r"install memtend\[http\]"):
        load_refiner("openai", ENVIRON)
