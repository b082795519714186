"""Vectors of session bindings: which are valid, and which let a session go on."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from helpers.recalls import Case, list_cases

from storage.errors import AdmissionError, MaintenanceError
from storage.models import Namespace, round_to_f32
from tasks.hits import RecallPolicy
from tasks.semantic_binding import SemanticBinding
from tasks.session_binding import (
    BindingMismatchError,
    SessionBinding,
    describe_binding,
    fill_namespace,
    make_binding,
    parse_binding,
    resume_session,
)

_BINDINGS = {case["id"]: case for case in list_cases("binding")}
_RESUMES = [pytest.param(case, id=case["id"]) for case in list_cases("resume")]
_LEXICAL, _HYBRID = (_BINDINGS[name]["inputs"] for name in ("V156", "V157"))
Json = dict[str, Any]


def _try(call: Callable[[], object]) -> object:
    """Give what came of a call: its value, or its error as the vectors write one."""
    try:
        return call()
    except MaintenanceError as error:
        return {"error": {"code": error.code, "field": error.facts["field"]}}


@pytest.mark.parametrize("name", _BINDINGS)
def test_binding_is_valid_or_refused_by_field(name: str) -> None:
    case = _BINDINGS[name]
    found = _try(lambda: parse_binding(case["inputs"]))
    assert ("valid" if isinstance(found, SessionBinding) else found) == case["expected"]


@pytest.mark.parametrize("case", _RESUMES)
def test_session_resumes_as_the_vector_says(case: Case) -> None:
    stored, given = case["inputs"]["stored"], case["inputs"]["injected"]
    # What a host injects is never invalid: beside the invalid stored one it offers another.
    usable = _LEXICAL if case["id"] == "V195" else given
    injected = None if usable is None else parse_binding(usable)
    found = _try(lambda: resume_session(stored, injected))
    if not isinstance(found, dict):
        assert found == injected
        found = "ok, unbound" if found is None else "ok"
    assert found == case["expected"]


@pytest.mark.parametrize("name", ["V152", "V153", "V154", "V155", "V177"])
def test_legacy_binding_never_resumes_not_even_with_its_equal(name: str) -> None:
    values = _BINDINGS[name]["inputs"]
    with pytest.raises(BindingMismatchError) as caught:
        resume_session(values, parse_binding(values))
    assert caught.value.field == "schemaVersion"


def test_shadow_binding_of_a_new_schema_never_resumes() -> None:
    values = {**_LEXICAL, "mode": "shadow_candidates"}
    del values["recallPolicy"]
    with pytest.raises(BindingMismatchError) as caught:
        resume_session(values, parse_binding(values))
    assert caught.value.field == "mode"


def test_numbers_are_compared_as_32_bit_floats() -> None:
    policy = {**_LEXICAL["recallPolicy"], "minLexicalScore": round_to_f32(0.4)}
    stored = {**_LEXICAL, "recallPolicy": policy}
    assert resume_session(stored, parse_binding(_LEXICAL)) == parse_binding(_LEXICAL)


@pytest.mark.parametrize("values", [_LEXICAL, _HYBRID], ids=["lexical", "hybrid"])
def test_binding_is_written_as_it_was_read(values: Json) -> None:
    written = json.dumps(describe_binding(parse_binding(values)))
    assert json.loads(written) == values


def test_decided_only_is_written_only_when_it_is_asked_for() -> None:
    space = Namespace(tenant="t", principal="p", scope="s")
    policies = [RecallPolicy(decided_only=decided) for decided in (False, True)]
    said = [describe_binding(make_binding(space, policy)) for policy in policies]
    keys = [set(dict(one["recallPolicy"])) for one in said]  # type: ignore[call-overload]
    assert keys[1] - keys[0] == {"decidedOnly"}
    assert [parse_binding(one).recall_policy for one in said] == policies


def test_new_binding_has_the_newest_schema() -> None:
    semantic = SemanticBinding.model_validate(_HYBRID["semanticRecall"])
    held = parse_binding(_HYBRID)
    assert held.recall_policy is not None
    assert make_binding(held.namespace, held.recall_policy, semantic) == held
    assert make_binding(held.namespace, held.recall_policy).schema_version == 4


@pytest.mark.parametrize(
    ("values", "field"),
    [
        pytest.param("text", "unreadable", id="no-object"),
        pytest.param({**_LEXICAL, "schemaVersion": "4"}, "unreadable", id="version-as-text"),
        pytest.param({**_LEXICAL, "schemaVersion": True}, "unreadable", id="version-as-bool"),
        pytest.param({**_LEXICAL, "namespace": {"tenantId": "t"}}, "namespace", id="no-scope"),
        pytest.param(
            {**_LEXICAL, "namespace": {**_LEXICAL["namespace"], "x": 1}},
            "namespace",
            id="extra-part",
        ),
        pytest.param(
            {**_LEXICAL, "recallPolicy": {**_LEXICAL["recallPolicy"], "max_results": 5}},
            "recallPolicy",
            id="snake-case",
        ),
        pytest.param({**_LEXICAL, "recallPolicy": {}}, "recallPolicy", id="empty-policy"),
    ],
)
def test_malformed_binding_names_its_part(values: object, field: str) -> None:
    with pytest.raises(AdmissionError) as caught:
        parse_binding(values)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param(("embedding", "model"), " padded", id="blanks-around-a-name"),
        pytest.param(("embedding", "model"), "a\nb", id="control-character"),
        pytest.param(("embedding", "provider"), "é" * 129, id="over-256-bytes"),
        pytest.param(("embedding", "dimension"), 65_537, id="dimension"),
        pytest.param(("vectorIndex", "maxBytes"), 7, id="no-room-for-a-vector"),
        pytest.param(("vectorIndex", "maxRecords"), 0, id="no-records"),
        pytest.param(("vectorIndex", "normalization"), "none", id="index-of-other-lengths"),
        pytest.param(("policy", "candidateLimit"), 101, id="candidate-limit"),
        pytest.param(("policy", "minScore"), float("nan"), id="score-is-no-number"),
        pytest.param(("schema",), "a3s.other.v1", id="schema"),
        pytest.param(("embeddingExecutionDigest",), "sha256:" + "a" * 63, id="short-digest"),
    ],
)
def test_semantic_part_out_of_bounds_is_refused(path: tuple[str, ...], value: object) -> None:
    values = json.loads(json.dumps(_HYBRID))
    place = values["semanticRecall"]
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    with pytest.raises(AdmissionError) as caught:
        parse_binding(values)
    assert caught.value.field == "semanticRecall"
    assert "é" not in str(caught.value)


def test_namespace_parts_that_the_caller_leaves_out_are_those_of_the_session() -> None:
    held = parse_binding(_LEXICAL)
    assert fill_namespace(held, scope="s") == held.namespace
    assert fill_namespace(held, scope="s", tenant="t", principal="p") == held.namespace


@pytest.mark.parametrize("given", [{"scope": "z"}, {"tenant": "z"}, {"principal": ""}], ids=str)
def test_namespace_parts_that_differ_are_refused(given: dict[str, str]) -> None:
    held = parse_binding(_LEXICAL)
    with pytest.raises(BindingMismatchError) as caught:
        fill_namespace(held, **{"scope": "s", **given})
    assert caught.value.field == "namespace"
