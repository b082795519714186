"""The erase flow: the same work as the inline runner, as Prefect task runs."""

from datetime import datetime

from prefect import flow
from prefect.client.schemas.objects import State

from flows.driver import JobForm, end_early, name_run, run_flow
from flows.erased_artifacts import remove_artifacts_of
from flows.selector import NamespaceSelector
from storage.runs import Mode, Trigger
from tasks.erasing.selection import ErasePolicy
from tasks.limits import SafetyLimits


@flow(name="erase", flow_run_name=name_run, persist_result=False)
def erase(
    policy: ErasePolicy,
    store: str = "",
    namespace: NamespaceSelector | None = None,
    mode: Mode = "plan",
    now: datetime | None = None,
    limits: SafetyLimits = SafetyLimits(),
    trigger: Trigger = "manual",
) -> State:
    """Erase every trace of memories from both stores, for good, and prove it.

    Prefect keeps the parameters of a flow run, and with them the ids that are typed here; the
    command line leaves no such trace.

    Args:
        policy: What to erase: memories, a subject, or the whole chosen namespace.
        store: Directory of the store; empty: the MEMTEND_STORE setting.
        namespace: The only namespace to work on; absent: all, one after the other.
        mode: plan shows what would be erased, apply does it.
        now: Decide as of this instant; absent: when the run was scheduled.
        limits: How much of a namespace may go along without a confirmation.
        trigger: What started the run; schedules say so themselves.
    """
    form = JobForm(
        store=store, namespace=namespace, mode=mode, now=now, limits=limits, trigger=trigger
    )
    try:
        if mode == "apply":
            remove_artifacts_of(policy, form)
    except Exception as error:  # noqa: BLE001 - an exception's text would reach Prefect's database
        return end_early(error)
    return run_flow("erase", policy, form)
