"""What the verbs that operate a store print for people."""

from collections.abc import Sequence

from rich.console import Console

from tasks.control import CloseReport, ControlState
from tasks.doctor import Finding


def render_findings(console: Console, findings: Sequence[Finding]) -> None:
    """Print what is wrong or due, and what a repair does or did about it."""
    told = [one for one in findings if one.broken or one.due]
    console.print(f"{len(findings)} checks, {len(told)} with something to say")
    for finding in told:
        style = "red" if finding.left else "yellow"
        counts = {"broken": finding.broken, "due": finding.due}
        figures = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        examples = f" ({', '.join(finding.examples)})" if finding.examples else ""
        console.print(f"{finding.name}: {figures}{examples}", style=style)
        help_text = _say_help(finding)
        if help_text:
            console.print(f"  {help_text}")


def _say_help(finding: Finding) -> str:
    if finding.repaired is not None:
        return finding.advice or f"repaired {finding.repaired}"
    if finding.repair is not None:
        return f"memtend doctor --repair would {finding.repair}"
    return finding.advice or ""


def render_control(console: Console, state: ControlState) -> None:
    """Print whether runs may start."""
    paused = ["every job" if job == "*" else job for job in state.paused]
    console.print(f"store {state.phase}; paused: {', '.join(paused) or 'none'}")
    if state.cancelled:
        console.print(f"asked {state.cancelled} of {state.running} runs at work to end")
    elif state.running:
        console.print(f"{state.running} runs are at work; --cancel asks them to end")


def render_close(console: Console, report: CloseReport) -> None:
    """Print how the runs at work ended when the store was closed."""
    console.print(
        f"store closed: {report.jobs_joined} runs ended, {report.jobs_aborted} are still at work,"
        f" {report.join_failures} were gone; open it with: memtend resume"
    )
