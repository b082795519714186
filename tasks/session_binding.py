"""What a session recalls from and how: written with the session, compared when it is resumed.

A binding holds no store, path, key or credential. Source: spec/recall.md R17-R19, 4.2, 4.5.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, TypeVar

from pydantic import BaseModel, StrictInt, StrictStr, ValidationError

from storage import Store
from storage.encoding import format_f32
from storage.errors import AdmissionError, MaintenanceError
from storage.lexical import WORD_CJK_BIGRAM_V1, WORD_V1
from storage.models import Namespace
from tasks.contexts import CONTEXT_PROFILE
from tasks.hits import RecallPolicy, parse_recall_policy
from tasks.providers.embedder import Embedder
from tasks.recall import Recalled, SemanticSource, recall_memories
from tasks.semantic_binding import BoundPart, SemanticBinding

_Model = TypeVar("_Model", bound=BaseModel)
Mode = Literal["active_recall", "shadow_candidates"]
HOST_ID_V0 = "a3s.code.memory.context.host-id.v0"
SESSION_RUN_V1 = "a3s.code.memory.context.session-run-sequence-sha256.v1"
_CONTEXT_PROFILES = (HOST_ID_V0, SESSION_RUN_V1, CONTEXT_PROFILE)
_ACTIVE: Mode = "active_recall"
_POLICY_KEYS = {
    "maxResults": "max_results",
    "minLexicalScore": "min_lexical_score",
    "maxRelatedLookups": "max_related_lookups",
    "decidedOnly": "decided_only",
}


class _Schema(NamedTuple):
    retrieval_profile: str
    context_id_profile: str
    is_semantic: bool = False


_SCHEMAS = {
    1: _Schema(WORD_V1, HOST_ID_V0),
    2: _Schema(WORD_CJK_BIGRAM_V1, HOST_ID_V0),
    3: _Schema(WORD_CJK_BIGRAM_V1, SESSION_RUN_V1),
    4: _Schema(WORD_CJK_BIGRAM_V1, CONTEXT_PROFILE),
    5: _Schema(WORD_CJK_BIGRAM_V1, CONTEXT_PROFILE, is_semantic=True),
}
_LEXICAL, _SEMANTIC = 4, 5  # what new bindings are


class BindingMismatchError(MaintenanceError, ValueError):
    """A session cannot go on under another binding: start a new one."""

    code = "binding_mismatch"

    def __init__(self, field: str) -> None:
        """Name the first field that differs."""
        super().__init__(f"{field} is not that of the session: start a new session", field=field)
        self.field = field


@dataclass(frozen=True, slots=True)
class SessionBinding:
    """A binding, its fields in the order that they are compared in; numbers are 32-bit floats."""

    schema_version: int
    namespace: Namespace
    mode: Mode
    recall_policy: RecallPolicy | None
    retrieval_profile: str
    context_id_profile: str
    semantic_recall: SemanticBinding | None = None


_FIELDS = {
    "schemaVersion": "schema_version",
    "namespace": "namespace",
    "mode": "mode",
    "recallPolicy": "recall_policy",
    "retrievalProfile": "retrieval_profile",
    "contextIdProfile": "context_id_profile",
    "semanticRecall": "semantic_recall",
}


class _Written(BoundPart):
    """The form of a binding; what stands in its parts is read later, in the order of the checks."""

    schema_version: StrictInt
    namespace: dict[StrictStr, object]
    mode: Mode
    recall_policy: dict[StrictStr, object] | None = None
    retrieval_profile: StrictStr = WORD_V1
    context_id_profile: StrictStr = HOST_ID_V0
    semantic_recall: dict[StrictStr, object] | None = None


class _WrittenNamespace(BoundPart):
    tenant_id: object
    principal_id: object
    scope_id: object


def make_binding(
    namespace: Namespace, policy: RecallPolicy, semantic: SemanticBinding | None = None
) -> SessionBinding:
    """Make the binding of a new session."""
    version = _LEXICAL if semantic is None else _SEMANTIC
    schema = _SCHEMAS[version]
    profiles = schema.retrieval_profile, schema.context_id_profile
    return SessionBinding(version, namespace, _ACTIVE, policy, *profiles, semantic)


def describe_binding(binding: SessionBinding) -> dict[str, object]:
    """Give a binding as JSON values."""
    parts = binding.namespace.model_dump()
    said: dict[str, object] = {
        "schemaVersion": binding.schema_version,
        "namespace": {f"{part}Id": name for part, name in parts.items()},
        "mode": binding.mode,
    }
    if binding.recall_policy is not None:
        said["recallPolicy"] = _describe_policy(binding.recall_policy)
    said["retrievalProfile"] = binding.retrieval_profile
    said["contextIdProfile"] = binding.context_id_profile
    if binding.semantic_recall is not None:
        said["semanticRecall"] = binding.semantic_recall.describe()
    return said


def _describe_policy(policy: RecallPolicy) -> dict[str, object]:
    said = {key: getattr(policy, name) for key, name in _POLICY_KEYS.items()}
    said["minLexicalScore"] = float(format_f32(policy.min_lexical_score))
    if not policy.decided_only:
        del said["decidedOnly"]
    return said


def parse_binding(values: object) -> SessionBinding:
    """Read a stored binding, legacy ones included.

    Raises:
        AdmissionError: Not a binding; it names the field, or `unreadable`.
    """
    written = _parse(_Written, values, "unreadable")
    schema = _check_profiles(written)
    given = _parse(_WrittenNamespace, written.namespace, "namespace")
    names = {name.removesuffix("_id"): part for name, part in given}
    namespace = _parse(Namespace, names, "namespace")
    semantic = _read_semantic(written, schema)
    if schema.is_semantic and written.mode != _ACTIVE:
        raise AdmissionError("mode", "a semantic part is for active_recall")
    return SessionBinding(
        written.schema_version,
        namespace,
        written.mode,
        _read_policy(written),
        written.retrieval_profile,
        written.context_id_profile,
        semantic,
    )


def _check_profiles(written: _Written) -> _Schema:
    if written.retrieval_profile not in {WORD_V1, WORD_CJK_BIGRAM_V1}:
        raise AdmissionError("retrievalProfile", "unknown")
    if written.context_id_profile not in _CONTEXT_PROFILES:
        raise AdmissionError("contextIdProfile", "unknown")
    schema = _SCHEMAS.get(written.schema_version)
    if schema is None:
        raise AdmissionError("schemaVersion", "unknown")
    if written.retrieval_profile != schema.retrieval_profile:
        raise AdmissionError("retrievalProfile", "not that of the schema")
    if written.context_id_profile != schema.context_id_profile:
        raise AdmissionError("contextIdProfile", "not that of the schema")
    return schema


def _read_semantic(written: _Written, schema: _Schema) -> SemanticBinding | None:
    values = written.semantic_recall
    if (values is not None) != schema.is_semantic:
        need = "needs" if schema.is_semantic else "has no"
        raise AdmissionError("semanticRecall", f"the schema {need} semantic part")
    return None if values is None else _parse(SemanticBinding, values, "semanticRecall")


def _read_policy(written: _Written) -> RecallPolicy | None:
    values = written.recall_policy
    if (values is not None) != (written.mode == _ACTIVE):
        need = "needs" if written.mode == _ACTIVE else "has no"
        raise AdmissionError("recallPolicy", f"the mode {need} policy")
    if values is None:
        return None
    if not _POLICY_KEYS.keys() - {"decidedOnly"} <= values.keys() <= _POLICY_KEYS.keys():
        raise AdmissionError("recallPolicy", "a key is missing or unknown")
    try:
        return parse_recall_policy({_POLICY_KEYS[key]: value for key, value in values.items()})
    except AdmissionError as error:
        raise AdmissionError("recallPolicy", f"{error.field}: {error.reason}") from None


def _parse(model: type[_Model], values: object, field: str) -> _Model:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, fault["loc"]))
        raise AdmissionError(field, f"{where}: {fault['msg']}" if where else fault["msg"]) from None


def resume_session(stored: object | None, injected: SessionBinding | None) -> SessionBinding | None:
    """Compare what a session was stored with and what its host injects now (R19).

    Args:
        stored: The JSON values of the stored binding; None: the session never had a memory.
        injected: What the host offers; None: no memory.

    Returns:
        The binding to go on with; None: without a memory, as before.

    Raises:
        AdmissionError: The stored binding is not valid.
        BindingMismatchError: They differ, or the stored one is of a kind that no new one equals.
    """
    if stored is None:
        if injected is not None:
            raise BindingMismatchError("binding")
        return None
    held = parse_binding(stored)
    if injected is None:
        raise BindingMismatchError("binding")
    for key, name in _FIELDS.items():
        if getattr(held, name) != getattr(injected, name):
            raise BindingMismatchError(key)
    if held.schema_version not in {_LEXICAL, _SEMANTIC}:
        raise BindingMismatchError("schemaVersion")
    if held.mode != _ACTIVE:
        raise BindingMismatchError("mode")
    return held


def recall_session(
    store: Store,
    binding: SessionBinding,
    query: str,
    *,
    now: datetime,
    load: Callable[[], Embedder] | None = None,
) -> Recalled:
    """Recall what a session is bound to; a shadow session recalls nothing.

    Args:
        store: Read in short transactions; nothing is written.
        binding: The session's, made new or resumed.
        query: Free text.
        now: Memories that have expired by then are not served.
        load: Makes the embedder of the semantic part; without one the answer is by words only.
    """
    part = binding.semantic_recall
    return recall_memories(
        store,
        binding.namespace,
        query,
        policy=binding.recall_policy,
        now=now,
        source=SemanticSource(load, part.describe()) if part and load else None,
        profile=binding.retrieval_profile,
    )


def fill_namespace(
    held: SessionBinding, *, scope: str, tenant: str | None = None, principal: str | None = None
) -> Namespace:
    """Give the namespace that a resuming caller means: what it leaves out is that of the session.

    Raises:
        BindingMismatchError: It names another one.
    """
    ours = held.namespace
    is_same = scope == ours.scope and tenant in {None, ours.tenant}
    if not is_same or principal not in {None, ours.principal}:
        raise BindingMismatchError("namespace")
    return ours
