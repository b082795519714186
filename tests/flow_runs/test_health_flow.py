"""The health flow: its snapshot and its figures are those of the inline runner."""

import shutil
from datetime import datetime

import pytest
from helpers.health import run_health
from helpers.prefect_runs import read_kept
from helpers.rows import memory_table
from prefect.client.schemas.objects import State, StateType
from prefect.utilities.callables import parameter_schema

from flows.health import health
from storage import Store
from storage.memories import insert_memories

FIGURES = """
SELECT namespace_id, subject, metric, value, label
FROM health
WHERE subject NOT IN ('jobs', 'files')
ORDER BY ALL
"""


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_flow_keeps_and_shows_what_the_inline_runner_does(store: Store, now: datetime) -> None:
    with store.write() as writer:
        insert_memories(writer, memory_table({"id": "m1"}, {"id": "m2", "expires_at": now}))
    twin = Store(store.path.with_name("twin"))
    shutil.copytree(store.path, twin.path)
    told = run_health(twin, now).end.figures
    state: State = health(store=str(store.path), now=now, return_state=True)
    assert (state.type, state.name) == (StateType.COMPLETED, "applied")
    with store.read() as reader, twin.read() as other:
        assert reader.rows(FIGURES) == other.rows(FIGURES)
    kept = read_kept(state)
    assert 0 < len(kept.task_runs) <= 20
    for name in ("memories.active", "memories.expired_pending", "memories.total"):
        assert f'"figure": "{name}", "value": {told[name]}' in kept.texts()


def test_form_describes_each_field_of_the_policy() -> None:
    definitions = parameter_schema(health).model_dump()["definitions"]
    policy = definitions["HealthPolicy"]["properties"]
    assert all(field.get("description") for field in policy.values())
