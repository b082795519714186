"""Both that ask a service over HTTP: the embedder and the refiner, each as one call."""

import traceback
from collections.abc import Callable

import pytest
from helpers.services import Service
from helpers.sets import SPACE

from storage.models import Kind
from tasks.providers.embedder import Embedder, ProviderError
from tasks.providers.refiner import Refiner, RefineRequest, RefineSource
from tasks.providers.refiners import load_refiner
from tasks.providers.registry import load_embedder

# Part of the key and of each text: it may stand in no error and in no log.
CANARY = "5c1d"
KEY = f"sk-canary-{CANARY}"
TEXTS = ["alpha 5c1d", "beta 5c1d", "gamma 5c1d"]
REQUEST = RefineRequest(
    namespace=SPACE,
    kind=Kind.SEMANTIC,
    sources=(
        RefineSource(memory_id="m1", revision=3, content="Keep 10 attempts 5c1d"),
        RefineSource(memory_id="m2", revision=1, content="Ten attempts, 试 5c1d"),
    ),
)

Ask = Callable[[], object]


def load_http_embedder(service: Service, key: str = KEY, timeout_s: float = 2) -> Embedder:
    """Load the embedder that asks this service."""
    environ = {
        "MEMTEND_EMBEDDER_URL": service.url,
        "MEMTEND_EMBEDDER_MODEL": "refresh-v1",
        "MEMTEND_EMBEDDER_DIMENSION": "2",
        "MEMTEND_EMBEDDER_KEY": key,
    }
    return load_embedder("http", environ, request_timeout_s=timeout_s)


def load_http_refiner(service: Service, key: str = KEY, timeout_s: float = 2) -> Refiner:
    """Load the refiner that asks this service."""
    environ = {
        "MEMTEND_REFINER_URL": service.url,
        "MEMTEND_REFINER_MODEL": "writer-v1",
        "MEMTEND_REFINER_KEY": key,
    }
    return load_refiner("openai", environ, request_timeout_s=timeout_s)


def load_asker(name: str, service: Service, *, timeout_s: float = 2) -> Ask:
    """Load an asker by its name, with something to ask."""
    if name == "embedder":
        embedder = load_http_embedder(service, timeout_s=timeout_s)
        return lambda: embedder.embed_documents(TEXTS)
    refiner = load_http_refiner(service, timeout_s=timeout_s)
    return lambda: refiner.refine(REQUEST)


def catch_fault(ask: Ask) -> ProviderError:
    """Ask in vain; the error says nothing of what was asked, and brings no other error along."""
    with pytest.raises(ProviderError) as caught:
        ask()
    shown = "".join(traceback.format_exception(caught.value))
    assert CANARY not in f"{shown}{caught.value.facts}"
    assert caught.value.__context__ is None
    return caught.value
