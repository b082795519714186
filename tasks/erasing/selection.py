"""What an erasure is asked to take, and what it takes: the plan, and whether a person has to agree.

The selector is named and of one kind. A merged memory goes with its whole lineage, and so does what
a refiner made of it; the plan says so first. Source: DESIGN 6, 10.10; spec/consolidate.md R96.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, StrictBool, model_validator

from storage import Store, StoreReader
from storage.digests import digest_values
from storage.erasure_keys import Said, find_erased
from storage.erasures import Taken, count_active, find_all, find_tagged, take_all, take_lineage
from storage.errors import AdmissionError, MemoryNotFoundError, PlanRefusedError
from storage.memories import find_memory
from storage.models import MAX_TAG_BYTES, Identifier, Namespace, check_identifier
from storage.namespaces import StoredNamespace, list_namespaces
from tasks.limits import SafetyLimits
from tasks.policies import Policy
from tasks.requests import JobRequest

_SUBJECT = "subject:"
_ID_DIGITS = 20


def _check_subject(value: object) -> object:
    if value is None:
        return None
    tag = check_identifier(value, MAX_TAG_BYTES)
    if not tag.startswith(_SUBJECT) or not tag.removeprefix(_SUBJECT).strip():
        message = "must name a subject, as subject:ID"
        raise ValueError(message)
    return tag


class ErasePolicy(Policy):
    """What to erase: memories, a subject, or a whole namespace; one of the three."""

    ids: tuple[Identifier, ...] = Field(default=(), description="The memories to erase")
    tag: Annotated[str | None, BeforeValidator(_check_subject)] = Field(
        default=None, description="Erase the memories with this tag, as subject:ID"
    )
    whole_namespace: StrictBool = Field(
        default=False, description="Erase all that the chosen namespace has"
    )
    plan_ids: tuple[str, ...] = Field(
        default=(), description="Erase exactly what these plans list, over a limit too"
    )

    @model_validator(mode="after")
    def _is_selective(self) -> Self:
        if bool(self.ids) + (self.tag is not None) + self.whole_namespace != 1:
            message = "name memories, a subject or a namespace: one of the three"
            raise ValueError(message)
        return self


@dataclass(frozen=True, slots=True)
class Selection:
    """What an erasure takes in one namespace; `active` counts all active memories there."""

    target: StoredNamespace
    taken: tuple[Taken, ...]
    active: int
    is_whole: bool

    @property
    def plan_id(self) -> str:
        """A digest of what is taken, at which revisions: the same facts give the same plan."""
        said = {
            "job": "erase",
            "namespace": self.target.namespace.model_dump(),
            "taken": [[one.memory_id, one.revision] for one in self.taken],
        }
        return "plan_" + digest_values(said).removeprefix("sha256:")[:_ID_DIGITS]

    @property
    def memories(self) -> int:
        """How many memories there are to take; the rest are traces."""
        return sum(one.revision is not None for one in self.taken)

    def guard(self, limits: SafetyLimits, confirmed: Collection[str]) -> None:
        """Refuse what nobody has agreed to: too much, or more than was confirmed.

        Memories that the selector names are agreed to; the share is of those that go with them, or
        of a whole namespace.

        Raises:
            PlanRefusedError: A limit was hit, or another plan was confirmed.
        """
        if confirmed:
            if self.plan_id not in confirmed:
                raise PlanRefusedError(self.plan_id, "confirm_plan_id")
            return
        figures = {"planned": self.memories, "visible": self.active}
        if limits.max_rows is not None and self.memories > limits.max_rows:
            raise PlanRefusedError(self.plan_id, "max_rows", **figures, allowed=limits.max_rows)
        allowed = limits.allowed(self.active)
        judged = sum(
            one.status == "active" and (self.is_whole or one.reason != "named")
            for one in self.taken
        )
        if allowed is not None and judged > allowed:
            figures["planned"] = judged
            raise PlanRefusedError(self.plan_id, "max_fraction", **figures, allowed=allowed)

    def describe(self) -> dict[str, Any]:
        """Give the plan as data: every memory, without a word of what it says."""
        return {
            "plan_id": self.plan_id,
            "found": len(self.taken),
            "reasons": dict(Counter(one.reason for one in self.taken)),
            "decisions": [
                {
                    "id": one.memory_id,
                    "reason": one.reason,
                    "action": "erase",
                    "expected_revision": one.revision,
                    "status": one.status,
                }
                for one in self.taken
            ],
        }


def read_policy(request: JobRequest) -> ErasePolicy:
    """Read the policy of a request."""
    return ErasePolicy.model_validate(request.policy.model_dump())


def select_memories(
    reader: StoreReader,
    policy: ErasePolicy,
    target: StoredNamespace,
    *,
    is_chosen: bool,
    left: Collection[str] = (),
) -> Selection:
    """Select what is taken in a namespace.

    Args:
        reader: An open handle.
        policy: What is asked for.
        target: The namespace.
        is_chosen: Somebody named the namespace; else it is one of all.
        left: Of a whole namespace, ids that only files name.

    Raises:
        AdmissionError: A whole namespace is meant and none is named, or an id is in several.
    """
    owner = target.namespace_id
    if policy.whole_namespace:
        if not is_chosen:
            raise AdmissionError("namespace", "must be named to be erased")
        taken = take_all(reader, owner, {*find_all(reader, owner), *left})
    elif policy.tag is not None:
        taken = take_lineage(reader, owner, find_tagged(reader, owner, policy.tag))
    else:
        if not is_chosen:
            _refuse_ambiguous(reader, policy.ids)
        taken = take_lineage(reader, owner, policy.ids)
    return Selection(target, tuple(taken), count_active(reader, owner), policy.whole_namespace)


def list_ids(store: Store, policy: ErasePolicy, namespace: Namespace | None) -> list[str]:
    """List the ids that an erasure takes, over all namespaces that it is about."""
    with store.read() as reader:
        targets = [one for one in list_namespaces(reader) if namespace in {None, one.namespace}]
        chosen = [
            select_memories(reader, policy, one, is_chosen=namespace is not None) for one in targets
        ]
    return sorted({one.memory_id for selection in chosen for one in selection.taken})


def check_found(store: Store, ids: Collection[str], found: Collection[str]) -> None:
    """Check that each of these ids was found, or was erased before.

    Raises:
        MemoryNotFoundError: Nothing in the store names one of them.
    """
    unknown = [name for name in ids if name not in found]
    said = [Said(name, ()) for name in unknown]
    with store.read() as reader:
        owners = list_namespaces(reader) if unknown else []
        erased = [find_erased(reader, owner.namespace_id, said) for owner in owners]
    for name in unknown:
        if not any(name in some for some in erased):
            raise MemoryNotFoundError(name)


def _refuse_ambiguous(reader: StoreReader, ids: Collection[str]) -> None:
    for memory_id in ids:
        if len(find_memory(reader, memory_id)) > 1:
            raise AdmissionError("namespace", f"memory {memory_id!r} is in several: name one")
