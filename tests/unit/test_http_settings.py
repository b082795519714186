"""What the HTTP embedder reads: its variables, of which no value is repeated, and waits."""

import traceback

import pytest

from tasks.providers.answers import read_retry_after_s
from tasks.providers.registry import load_embedder
from tasks.providers.weights import EmbedderSetupError

KEY = "sk-canary-5c1d"
CANARY = "5c1d"
ENVIRON = {
    "MEMTEND_EMBEDDER_URL": "http://127.0.0.1:9/v1",
    "MEMTEND_EMBEDDER_MODEL": "refresh-v1",
    "MEMTEND_EMBEDDER_DIMENSION": "2",
    "MEMTEND_EMBEDDER_KEY": KEY,
}


def test_identity_is_what_the_environment_says() -> None:
    environ = ENVIRON | {"MEMTEND_EMBEDDER_REVISION": "2026-11"}
    identity = load_embedder("http", environ).identity
    assert identity.model_dump() == {
        "provider": "openai-compatible",
        "model": "refresh-v1",
        "revision": "2026-11",
        "dimension": 2,
        "normalisation": "none",
    }


def test_key_is_not_shown() -> None:
    embedder = load_embedder("http", ENVIRON)
    settings = vars(embedder)["_settings"]
    assert KEY not in f"{embedder!r}{settings!r}{settings}{embedder.identity!r}"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MEMTEND_EMBEDDER_URL", ""),
        ("MEMTEND_EMBEDDER_URL", "127.0.0.1:80/v1"),
        ("MEMTEND_EMBEDDER_URL", "file:///canary-5c1d"),
        ("MEMTEND_EMBEDDER_URL", "http://user:canary-5c1d@127.0.0.1/v1"),
        ("MEMTEND_EMBEDDER_URL", "http://127.0.0.1/v1?key=canary-5c1d"),
        ("MEMTEND_EMBEDDER_URL", "http://127.0.0.1:canary-5c1d/v1"),
        ("MEMTEND_EMBEDDER_MODEL", " canary-5c1d"),
        ("MEMTEND_EMBEDDER_REVISION", "canary-5c1d\n"),
        ("MEMTEND_EMBEDDER_DIMENSION", "canary-5c1d"),
        ("MEMTEND_EMBEDDER_DIMENSION", "65537"),
        ("MEMTEND_EMBEDDER_KEY", "canary 5c1d"),
        ("MEMTEND_EMBEDDER_KEY", "canary-5c1d\r\nx: y"),
        ("MEMTEND_EMBEDDER_KEY", "canary-5c1d-ключ"),
    ],
)
def test_wrong_variable_is_named_and_not_repeated(variable: str, value: str) -> None:
    with pytest.raises(EmbedderSetupError, match=variable) as caught:
        load_embedder("http", ENVIRON | {variable: value})
    assert CANARY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("name", ["URL", "MODEL", "DIMENSION"])
def test_missing_variable_is_named(name: str) -> None:
    environ = {key: value for key, value in ENVIRON.items() if not key.endswith(name)}
    with pytest.raises(EmbedderSetupError, match=f"MEMTEND_EMBEDDER_{name}"):
        load_embedder("http", environ)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "٣"}, None),
        ({"retry-after": "soon", "date": "Mon, 30 Nov 2026 12:00:00 GMT"}, None),
        ({"retry-after": "Mon, 30 Nov 2026 12:00:00 GMT"}, None),
        (
            {
                "retry-after": "Mon, 30 Nov 2026 12:00:00 GMT",
                "date": "Mon, 30 Nov 2026 12:01:00 GMT",
            },
            0.0,
        ),
    ],
    ids=str,
)
def test_wait_is_read_from_seconds_or_a_date(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert read_retry_after_s(headers) == seconds
