"""The doctor: what is wrong with a store, and what can be put right without a decision.

To examine writes nothing and says for each finding what a repair would do, or which command a
person may run. To repair does that for exactly the things that were listed; each of them is judged
again in the transaction that changes it. Memories are never changed.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tasks.report import describe_error

_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found: how many things break a rule, and how many are only due."""

    name: str
    broken: int = 0
    due: int = 0
    examples: tuple[str, ...] = ()
    repair: str | None = None
    advice: str | None = None
    repaired: int | None = None
    act: Callable[[], int] | None = field(default=None, repr=False, compare=False)

    @property
    def left(self) -> int:
        """How many things still break the rule."""
        return max(0, self.broken - (self.repaired or 0))

    def describe(self) -> dict[str, Any]:
        """Give the finding as data."""
        names = ("name", "broken", "due", "examples", "repair", "advice", "repaired")
        return {name: getattr(self, name) for name in names}


Check = Callable[[], Finding | Iterable[Finding]]


def list_found(  # noqa: PLR0913 - what is said about a list of things
    name: str,
    things: Sequence[str],
    *,
    is_broken: bool,
    repair: str | None = None,
    advice: str | None = None,
    act: Callable[[], int] | None = None,
) -> Finding:
    """Make a finding of a list of things; of an empty one it says nothing more."""
    count = len(things)
    if not count:
        return Finding(name)
    figures = {"broken": count} if is_broken else {"due": count}
    some = tuple(things[:_EXAMPLES])
    return Finding(name, **figures, examples=some, repair=repair, advice=advice, act=act)


def examine(checks: Iterable[tuple[str, Check]]) -> list[Finding]:
    """Make all checks; one that cannot be made is a finding itself and stops no other."""
    findings: list[Finding] = []
    for name, check in checks:
        try:
            found = check()
        except Exception as error:  # noqa: BLE001 - a damaged store can fail in any way
            findings.append(Finding(name, broken=1, examples=(str(describe_error(error)["type"]),)))
            continue
        findings += [found] if isinstance(found, Finding) else found
    return findings


def repair(findings: Iterable[Finding]) -> list[Finding]:
    """Repair what the findings list, and say how many of them were."""
    return [_repair_one(finding) for finding in findings]


def _repair_one(finding: Finding) -> Finding:
    if finding.act is None:
        return finding
    try:
        return replace(finding, repaired=finding.act())
    except Exception as error:  # noqa: BLE001 - as above; the next repair is made
        said = describe_error(error)
        return replace(finding, repaired=0, advice=f"the repair failed: {said['message']}")
