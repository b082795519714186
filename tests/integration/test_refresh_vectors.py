"""Every refresh scenario of the vectors against a real store and real vectors."""

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.refreshes import World
from helpers.vectors import VECTORS

from storage.attempts import RetryPolicy
from storage.identities import UPSTREAM_RECORD_PROFILE
from tasks.providers.bounds import FailureBudget
from tasks.refresh.settings import RefreshSettings
from tasks.refresh.work import Owner

FILE = json.loads((VECTORS / "refresh-vectors.json").read_text(encoding="utf-8"))
CASES = {case["id"]: case for case in FILE["cases"]}
CONFORMANCE = [name for name, case in CASES.items() if case["profile"] == "a3s.v1"]
OWN = [name for name, case in CASES.items() if case["profile"] == "memtend.v1"]


def read_settings(given: dict[str, Any]) -> RefreshSettings:
    values = {**FILE["defaults"]["settings"], **given}
    return RefreshSettings(
        record_profile=values["record_profile"],
        cas_scope=values["cas_scope"],
        source_rounds=values["source_rounds"],
        max_embed_per_run=values["max_embed_per_run"],
        on_budget=values["on_budget"],
        max_rows=values["snapshot_max_rows"],
        max_bytes=values["snapshot_max_bytes"],
        failures=FailureBudget(
            on_row_failure=values["on_row_failure"],
            max_failed_rows=values["max_failed_rows"],
            max_failed_ratio=values["max_failed_share"],
            ratio_min_rows=values["failed_share_min_rows"],
        ),
        retry=RetryPolicy(
            base_s=values["retry_base_s"],
            cap_s=values["retry_cap_s"],
            max_attempts=values["max_row_attempts"],
        ),
    )


@pytest.mark.parametrize("name", OWN)
def test_scenario(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    texts = {**FILE["defaults"]["texts"], "BIG": "x" * 4096}
    settings = read_settings(case["given"].get("settings", {}))
    is_external = case["given"].get("settings", {}).get("source") == "external"
    world = World(tmp_path / "store", texts, settings, is_external=is_external)
    expected = iter(case["then"])

    for step in case["when"]:
        came = world.do(step)
        if step["op"] == "run":
            assert_run(world, came, next(expected))

    assert next(expected, None) is None
    assert world.count_orphans() == case.get("orphan_publications", 0)


@pytest.mark.parametrize("name", CONFORMANCE)
def test_conformance(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    given = case["given"]
    limits = {**FILE["defaults"]["a3s_limits"], **given.get("limits", {})}
    settings = RefreshSettings(
        record_profile=UPSTREAM_RECORD_PROFILE,
        cas_scope="index",
        source_rounds=1,
        max_embed_per_run=4096,
        on_budget="fail",
        max_rows=limits["max_nodes"],
        max_bytes=limits["max_bytes"],
        failures=FailureBudget(on_row_failure="fail_run"),
    )
    world = World(
        tmp_path / "store",
        FILE["defaults"]["texts"],
        settings,
        is_external=True,
        has_token=given.get("token", True),
        owner=Owner(),
        has_history=given.get("index_history", True),
    )
    world.bounds = world.bounds.model_copy(update={"max_retries": limits["retries"]})
    expected = iter(case["then"])

    for step in case["when"]:
        came = world.do(step)
        if step["op"] == "run":
            assert_conformance(world, came, next(expected))

    assert next(expected, None) is None


def assert_conformance(world: World, came: dict[str, Any], expected: dict[str, Any]) -> None:
    names = {"completed": "published"}
    outcome = names.get(came["state"], came["state"])
    counted = {k: v for k, v in came["counters"].items() if k not in {"invalidated", "adopted"}}
    assert (outcome, counted) == (expected["outcome"], expected["counters"])
    assert came.get("affected") == expected["affected"]
    assert describe_error(came) == expected["error"]
    assert world.read_index() == expected["index"]
    assert describe_evidence(world) == expected["receipt"]


def describe_error(came: dict[str, Any]) -> object:
    error = came.get("error")
    if error is None:
        return None
    facts = [
        error.facts[name]
        for name in ("resource", "limit", "expected", "actual")
        if name in error.facts
    ]
    return [error.code, *facts] if facts else error.code


def describe_evidence(world: World) -> dict[str, Any] | None:
    assert world.owner is not None
    if not world.owner.receipts:
        return None
    (receipt,) = world.owner.receipts.values()
    return {
        "active": receipt.counts.active,
        "token": receipt.source_token,
        "index_revision": receipt.index_revision,
    }


def assert_run(world: World, came: dict[str, Any], expected: dict[str, Any]) -> None:
    said = {name: came[name] for name in ("state", "reason", "counters")}
    assert said == {name: expected[name] for name in said}
    if "affected" in expected:
        assert came["affected"] == expected["affected"]
    if "pointer" in expected:
        pointer = world.read_pointer()
        assert {name: pointer[name] for name in expected["pointer"]} == expected["pointer"]
    if "receipt" in expected:
        assert describe_receipt(world) == expected["receipt"]
    if "serving" in expected:
        assert world.read_pointer()["is_current"] == (expected["serving"] == "current")


def describe_receipt(world: World) -> dict[str, Any]:
    stored = world.read_receipt()
    names = ("published", "failed", "permanent", "quarantined", "deferred")
    active = stored["active_count"]
    coverage = round(stored["published"] / active, 6) if active else 1.0
    said = {"token": stored["source_token"], "active": active, "coverage": coverage}
    return {**said, **{name: stored[name] for name in names}}
