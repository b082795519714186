"""Jobs that rewrite the shared vector tables keep each other and every refresh out, store-wide."""

from datetime import timedelta

import pytest
from helpers.rows import NOW

from storage import Store
from storage.errors import LeaseHeldError
from storage.leases import acquire_lease, release_lease
from storage.models import Namespace
from storage.namespaces import StoredNamespace, ensure_namespace

STORE_WIDE = ("erase", "janitor", "rebuild")
ELSEWHERE = ("prune", "sweep", "consolidate", "restore", "health", "maintain")


def find_space(store: Store, scope: str) -> StoredNamespace:
    with store.write() as writer:
        return ensure_namespace(writer, Namespace(tenant="t", principal="p", scope=scope))


def ask(store: Store, job: str, scope: str, *, holder: str, at_s: int = 0) -> str:
    target, clock = find_space(store, scope), NOW + timedelta(seconds=at_s)
    try:
        with store.write() as writer:
            acquire_lease(writer, target, job, holder=holder, clock=clock)
    except LeaseHeldError as error:
        return str(error.facts["reason"])
    return "granted"


@pytest.mark.parametrize("held", STORE_WIDE)
@pytest.mark.parametrize("asked", [*STORE_WIDE, "refresh"])
def test_store_wide_job_keeps_others_out_of_every_namespace(
    store: Store, held: str, asked: str
) -> None:
    with store.session():
        assert ask(store, held, "a", holder="A") == "granted"
        reason = "lease_held" if held == asked else "excluded_job"
        assert [ask(store, asked, scope, holder="B") for scope in "ab"] == [reason, reason]
        assert ask(store, asked, "b", holder="B", at_s=300) == "granted"


@pytest.mark.parametrize("asked", STORE_WIDE)
def test_refresh_of_any_namespace_keeps_store_wide_jobs_out(store: Store, asked: str) -> None:
    with store.session():
        assert ask(store, "refresh", "a", holder="A") == "granted"
        assert [ask(store, asked, scope, holder="B") for scope in "ab"] == ["excluded_job"] * 2


@pytest.mark.parametrize("asked", ELSEWHERE)
def test_janitor_lets_jobs_run_that_touch_no_vectors(store: Store, asked: str) -> None:
    with store.session():
        assert ask(store, "janitor", "a", holder="A") == "granted"
        assert [ask(store, asked, scope, holder="B") for scope in "ab"] == ["granted"] * 2


@pytest.mark.parametrize("asked", ["prune", "sweep", "consolidate", "restore"])
def test_erase_keeps_changes_out_of_its_own_namespace_only(store: Store, asked: str) -> None:
    with store.session():
        assert ask(store, "erase", "a", holder="A") == "granted"
        assert [ask(store, asked, scope, holder="B") for scope in "ab"] == [
            "excluded_job",
            "granted",
        ]


def test_refreshes_of_two_namespaces_run_beside_each_other(store: Store) -> None:
    with store.session():
        assert [ask(store, "refresh", scope, holder=scope) for scope in "ab"] == ["granted"] * 2


def test_rebuild_takes_its_refresh_lease_as_the_same_holder(store: Store) -> None:
    with store.session():
        assert ask(store, "rebuild", "a", holder="A") == "granted"
        assert ask(store, "refresh", "b", holder="B") == "excluded_job"
        assert ask(store, "refresh", "a", holder="A") == "granted"


def test_released_janitor_lets_a_refresh_start_at_once(store: Store) -> None:
    target = find_space(store, "a")
    with store.write() as writer:
        lease = acquire_lease(writer, target, "janitor", holder="A", clock=NOW)
        release_lease(writer, lease, clock=NOW)
    assert ask(store, "refresh", "b", holder="B") == "granted"
