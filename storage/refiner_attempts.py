"""What became of the clusters that a refiner was asked about: refined, to be tried again, given up.

Keyed by cluster digest, so new content starts afresh. Source: spec/consolidate.md R93, R94.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from storage.attempts import RetryPolicy
from storage.digests import encode_json
from storage.gateway import StoreReader, StoreWriter
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "refiner_attempts")

State = Literal["failed", "permanent", "refined"]


class ClusterAttempts(NamedTuple):
    """What is known of one cluster."""

    state: State
    failed_runs: int
    next_attempt_at: datetime | None


@dataclass(frozen=True, slots=True)
class ClusterKey:
    """Which cluster a row is about."""

    namespace_id: int
    digest: str
    member_ids: tuple[str, ...]


def read_attempts(
    reader: StoreReader, namespace_id: int, digests: Iterable[str]
) -> dict[str, ClusterAttempts]:
    """Read what is known of clusters of a namespace, by digest."""
    params = {"namespace_id": namespace_id, "digests": sorted(digests)}
    rows: Sequence[tuple[str, State, int, datetime | None]]
    rows = reader.rows(_SQL["read_attempts"], params)
    return {digest: ClusterAttempts(*known) for digest, *known in rows}


def record_failure(
    writer: StoreWriter, cluster: ClusterKey, reason: str, policy: RetryPolicy, *, clock: datetime
) -> None:
    """Count a failed run of a cluster and set when it is tried again, if ever."""
    params = _add_attempt(writer, cluster, clock)
    figures = {"base_s": policy.base_s, "cap_s": policy.cap_s, "max_attempts": policy.max_attempts}
    writer.execute(_SQL["record_failure"], {**params, **figures, "reason": reason})


def record_candidate(
    writer: StoreWriter, cluster: ClusterKey, candidate_id: str, *, clock: datetime
) -> None:
    """Note what was made of a cluster, in the transaction that made it."""
    params = _add_attempt(writer, cluster, clock)
    writer.execute(_SQL["record_candidate"], {**params, "candidate_id": candidate_id})


def _add_attempt(writer: StoreWriter, cluster: ClusterKey, clock: datetime) -> dict[str, object]:
    params: dict[str, object] = {
        "namespace_id": cluster.namespace_id,
        "digest": cluster.digest,
        "clock": clock,
    }
    member_ids = encode_json(list(cluster.member_ids))
    writer.execute(_SQL["add_attempt"], {**params, "member_ids": member_ids})
    return params
