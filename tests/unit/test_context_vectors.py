"""Vectors of derived names: contexts, admissions, context items, generations, partitions."""

from collections.abc import Callable
from typing import Any

import pytest
from helpers.recalls import START, Case, list_cases

from storage.errors import AdmissionError
from storage.identities import (
    UPSTREAM_RECORD_PROFILE,
    digest_content,
    digest_execution,
    digest_generation,
    name_partition,
    name_record,
)
from storage.models import Namespace
from tasks.contexts import make_item, name_admission, name_context
from tasks.hits import Hit
from tasks.semantic_binding import SemanticBinding

_NAMED = [case for case in list_cases("context_id") if case["id"] != "V100"]
_REFUSED = next(case for case in list_cases("context_id") if case["id"] == "V100")
_PARTS = {"session": "s", "run": "r", "invocation": "i", "sequence": 0}


def _partition(inputs: dict[str, Any]) -> str:
    return name_partition(Namespace(**inputs["namespace"]), inputs["serving_generation"])


_DERIVED: dict[str, Callable[[Any], str]] = {
    "admission_id": lambda inputs: name_admission(**inputs),
    "execution_digest": digest_execution,
    "serving_generation": digest_generation,
    "partition": _partition,
    "record_id": lambda inputs: name_record(UPSTREAM_RECORD_PROFILE, **inputs),
    "content_digest": digest_content,
}
_CASES = [case for kind in _DERIVED for case in list_cases(kind)]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in _NAMED])
def test_context_has_the_name_of_the_vector(case: Case) -> None:
    assert name_context(**case["inputs"]) == case["expected"]


def test_contexts_of_the_vectors_all_differ() -> None:
    names = [name_context(**case["inputs"]) for case in _NAMED]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"sequence": number} for number in _REFUSED["inputs"]["sequence"]),
        *({part: blank} for part in _REFUSED["inputs"]["blank"] for blank in ("", " \t")),
        {"session": "\ud800"},
    ],
    ids=ascii,
)
def test_v100_context_of_bad_parts_has_no_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(AdmissionError) as caught:
        name_context(**{**_PARTS, **wrong})
    assert caught.value.code == _REFUSED["expected"]["error"]["code"]
    assert caught.value.field == f"context.{next(iter(wrong))}"


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in _CASES])
def test_name_is_derived_as_the_vector_says(case: Case) -> None:
    assert _DERIVED[case["type"]](case["inputs"]) == case["expected"]


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case["id"]) for case in list_cases("serving_generation")]
)
def test_parsed_binding_keeps_its_generation(case: Case) -> None:
    binding = SemanticBinding.model_validate(case["inputs"])
    assert digest_generation(binding.describe()) == case["expected"]


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case["id"]) for case in list_cases("context_item")]
)
def test_context_item_is_made_as_the_vector_says(case: Case) -> None:
    given = case["inputs"]
    hit = Hit(
        given["memory_id"],
        given["revision"],
        "semantic",
        given["content"],
        0.5,
        "related",
        START,
        related_from="seed",
        evidence_count=2,
    )
    item = make_item(hit)
    assert {name: getattr(item, name) for name in case["expected"]} == case["expected"]
    assert (item.content, item.priority, item.trust, item.freshness) == (
        given["content"],
        0.4,
        0.8,
        0.6,
    )
    assert item.metadata == {
        "memory_id": given["memory_id"],
        "revision": given["revision"],
        "kind": "semantic",
        "evidence": 2,
        "channel": "related",
        "related_from": "seed",
    }
