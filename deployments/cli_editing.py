"""The verbs with which a person changes what is remembered: supersede."""

from dataclasses import asdict
from typing import Annotated

import typer

from deployments.desk import EXIT_DONE, Desk, Where
from deployments.options import parse_selector
from flows.edge import read_clock
from tasks.supersession import HandMade, supersede_by_hand

editing_app = typer.Typer()


@editing_app.command()
def supersede(
    ctx: typer.Context,
    old: Annotated[str, typer.Argument(metavar="OLD", help="the memory that is no longer true")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="the memory that takes its place")],
    text: Annotated[
        str | None, typer.Option(help="what NEW says, if it does not exist yet")
    ] = None,
    evidence: Annotated[
        str | None, typer.Option(metavar="URI", help="what verified it; this or --approver")
    ] = None,
    approver: Annotated[str | None, typer.Option(metavar="NAME", help="who decided it")] = None,
    note: Annotated[str | None, typer.Option(help="a remark, kept with a new memory")] = None,
    expected_revision: Annotated[
        int | None, typer.Option(help="refuse if OLD has another one", min=1)
    ] = None,
    namespace: Where = None,
) -> int:
    """Put one memory in the place of another; the old one stays, with its history."""
    desk: Desk = ctx.obj
    asked = HandMade(
        old_id=old,
        new_id=new,
        text=text,
        verified_by=evidence,
        approver=approver,
        note=note,
        expected_revision=expected_revision,
        namespace=parse_selector(namespace),
        clock=read_clock(),
    )
    done = supersede_by_hand(desk.open(), asked)
    value = {"superseded": asdict(done)}
    desk.output.emit(value, lambda console: console.print(f"{new} supersedes {old}"))
    return EXIT_DONE
