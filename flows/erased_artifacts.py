"""Artifacts of memtend that name erased memories leave Prefect, where one is configured.

Only ids ever stand in them. They go before the rows do, while it is known which ids these are.
"""

import json
from collections.abc import Collection, Iterator
from pathlib import Path

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey
from prefect.client.schemas.objects import Artifact
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.driver import JobForm
from flows.edge import read_settings
from storage import Store
from storage.errors import MaintenanceError
from tasks.erasing.selection import ErasePolicy, list_ids

_PAGE = 200
_OURS = ArtifactFilter(key=ArtifactFilterKey(like_="memtend-"))


def remove_artifacts_of(policy: ErasePolicy, form: JobForm) -> int:
    """Remove the artifacts that name what a form asks to erase; count them."""
    namespace = form.namespace.namespace() if form.namespace is not None else None
    try:
        settings = read_settings()
        path = Path(form.store) if form.store else settings.store
        store = Store(path.absolute(), lock_wait_s=settings.lock_wait_s)
        return remove_artifacts(list_ids(store, policy, namespace))
    except MaintenanceError:
        return 0  # the run meets the same error, and ends with it


def remove_artifacts_at(api_url: str, ids: Collection[str]) -> int:
    """Remove the artifacts that name one of these ids from a server; `api_url` ends with /api."""
    with temporary_settings({PREFECT_API_URL: api_url}):
        return remove_artifacts(ids)


def remove_artifacts(ids: Collection[str]) -> int:
    """Remove the artifacts of memtend that name one of these ids; count them."""
    if not ids:
        return 0
    with get_client(sync_client=True) as client:
        named = [one for one in _list_artifacts(client) if _names(one, frozenset(ids))]
        for one in named:
            client.delete_artifact(one.id)
    return len(named)


def _list_artifacts(client: SyncPrefectClient) -> Iterator[Artifact]:
    offset = 0
    while True:
        page = client.read_artifacts(artifact_filter=_OURS, limit=_PAGE, offset=offset)
        yield from page
        if len(page) < _PAGE:
            return
        offset += _PAGE


def _names(artifact: Artifact, ids: frozenset[str]) -> bool:
    data = artifact.data
    if isinstance(data, str):
        try:
            data = json.loads(data)
        except ValueError:
            # A text for people: errors quote ids.
            return any(repr(name) in str(data) or f"`{name}`" in str(data) for name in ids)
    return any(text in ids for text in _list_texts(data))


def _list_texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _list_texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _list_texts(one)
