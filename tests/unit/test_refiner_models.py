"""A refiner is asked about two to eight memories of one durable kind, each once."""

import pytest
from helpers.sets import SPACE
from pydantic import ValidationError

from storage.models import Kind, Namespace
from tasks.providers.refiner import RefineRequest, RefineResponse, RefineSource
from tasks.refined_memory import digest_cluster


def ask(
    *names: str, kind: Kind = Kind.SEMANTIC, namespace: Namespace = SPACE, revision: int = 1
) -> RefineRequest:
    sources = tuple(
        RefineSource(memory_id=name, revision=revision, content=f"canary {name}") for name in names
    )
    return RefineRequest(namespace=namespace, kind=kind, sources=sources)


@pytest.mark.parametrize("count", [2, 8])
def test_two_to_eight_memories_are_asked_about(count: int) -> None:
    assert len(ask(*(f"m{number}" for number in range(count))).sources) == count


@pytest.mark.parametrize("names", [[], ["m1"], ["m1", "m1"], [f"m{n}" for n in range(9)]])
def test_other_clusters_are_refused_without_their_texts(names: list[str]) -> None:
    with pytest.raises(ValidationError) as caught:
        ask(*names)
    assert "canary" not in str(caught.value)


def test_working_memories_are_refused() -> None:
    with pytest.raises(ValidationError, match="not durable"):
        ask("m1", "m2", kind=Kind.WORKING)


@pytest.mark.parametrize("tokens", [-1, 1.5, True, "7", 2**63])
def test_cost_is_a_count(tokens: object) -> None:
    with pytest.raises(ValidationError):
        RefineResponse.model_validate({"output": None, "tokens": tokens})


def test_cluster_is_known_by_its_members_and_what_they_say() -> None:
    known = digest_cluster(ask("m1", "m2"))
    assert digest_cluster(ask("m2", "m1")) == digest_cluster(ask("m1", "m2", revision=7)) == known
    elsewhere = Namespace(tenant="t", principal="p", scope="other")
    first, second = ask("m1", "m2").sources
    edited = first.model_copy(update={"content": "else"})
    others = [
        ask("m1", "m3"),
        ask("m1", "m2", "m3"),
        ask("m1", "m2", kind=Kind.EPISODIC),
        ask("m1", "m2", namespace=elsewhere),
        ask("m1", "m2").model_copy(update={"sources": (edited, second)}),
    ]
    digests = {known, *map(digest_cluster, others)}
    assert len(digests) == len(others) + 1
