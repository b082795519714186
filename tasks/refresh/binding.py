"""The binding of an index: everything that shapes its vectors, and the partition that it names.

Free of secrets. Source: spec/refresh.md R5-R7, spec/recall.md 4.2.
"""

from typing import Any

from storage.identities import (
    digest_embedding,
    digest_execution,
    digest_generation,
    name_partition,
)
from storage.namespaces import StoredNamespace
from storage.partitions import Partition
from tasks.providers.bounds import ExecutionBounds
from tasks.providers.embedder import EmbeddingIdentity

BINDING_SCHEMA = "a3s.code.memory.semantic-recall-binding.v1"
FUSION_PROFILE = "a3s.code.memory.hybrid.rrf-k60.v1"
_BOUND_NAMES = (
    "maxBatchInputs",
    "maxBatchTextBytes",
    "maxInputTextBytes",
    "maxRequestInputs",
    "maxRequestTextBytes",
    "maxBatchVectorBytes",
    "maxRequestVectorBytes",
    "maxRetries",
    "baseRetryDelaySecs",
    "baseRetryDelayNanos",
    "maxRetryDelaySecs",
    "maxRetryDelayNanos",
    "requestTimeoutSecs",
    "requestTimeoutNanos",
)


def digest_bounds(bounds: ExecutionBounds) -> str:
    """Digest the bounds of the executor: the execution digest of a binding."""
    return digest_execution(dict(zip(_BOUND_NAMES, bounds.list_integers(), strict=True)))


def build_binding(  # noqa: PLR0913 - a binding has this many parts
    authority: str,
    identity: EmbeddingIdentity,
    bounds: ExecutionBounds,
    *,
    candidate_limit: int,
    min_score: float,
    max_records: int,
    max_bytes: int,
) -> dict[str, Any]:
    """Build a binding, its keys in their order."""
    return {
        "schema": BINDING_SCHEMA,
        "authorityDigest": authority,
        "embedding": {
            "provider": identity.provider,
            "model": identity.model,
            "revision": identity.revision,
            "dimension": identity.dimension,
            "normalization": identity.normalisation,
        },
        "embeddingExecutionDigest": digest_bounds(bounds),
        "vectorIndex": {
            "dimension": identity.dimension,
            "metric": "cosine",
            "normalization": "unit",
            "maxRecords": max_records,
            "maxBytes": max_bytes,
        },
        "policy": {"candidateLimit": candidate_limit, "minScore": float(min_score)},
        "fusionProfile": FUSION_PROFILE,
    }


def find_partition(target: StoredNamespace, binding: dict[str, Any]) -> Partition:
    """Find the partition that a binding names in a namespace."""
    generation = digest_generation(binding)
    return Partition(
        name=name_partition(target.namespace, generation),
        namespace_id=target.namespace_id,
        generation=generation,
        binding=binding,
        embedding_digest=digest_embedding(binding["embedding"]),
    )
