"""The verbs that read the store: recall, doctor."""

from dataclasses import asdict
from typing import Annotated

import typer

from deployments import render
from deployments.desk import EXIT_DONE, EXIT_FAILED, Desk, Now, Where
from deployments.options import parse_moment, parse_selector
from flows.edge import new_event_id, read_clock
from storage.access import AccessEvent, record_events
from storage.invariants import check_invariants
from storage.models import DEFAULT_NAMESPACE
from tasks.recall import describe_hit, parse_recall_policy, recall

reading_app = typer.Typer()


@reading_app.command("recall")
def recall_(
    ctx: typer.Context,
    query: str,
    limit: Annotated[int, typer.Option(help="most hits, 1..100")] = 10,
    related: Annotated[int, typer.Option(help="neighbours of hits to look at, 0..100")] = 0,
    floor: Annotated[float, typer.Option(help="smallest score of a hit, 0..1")] = 0.4,
    use: Annotated[bool, typer.Option("--use", help="count every hit as used")] = False,
    namespace: Where = None,
    now: Now = None,
) -> int:
    """Find the active memories that fit a text; a preview unless --use."""
    desk: Desk = ctx.obj
    at = parse_moment(now, read_clock())
    owner = parse_selector(namespace) or DEFAULT_NAMESPACE
    values = {"max_results": limit, "max_related_lookups": related, "min_lexical_score": floor}
    policy = parse_recall_policy(values)
    store = desk.open()
    with store.read() as reader:
        hits = recall(reader, owner, query, policy=policy, now=at)
    if use and hits:
        events = [
            AccessEvent(
                id=new_event_id(),
                namespace=owner,
                memory_id=hit.memory_id,
                revision=hit.revision,
                occurred_at=max(at, hit.updated_at),
            )
            for hit in hits
        ]
        record_events(store, "use", events)
    value = {"hits": [describe_hit(hit) for hit in hits]}
    desk.output.emit(value, lambda console: render.render_hits(console, value["hits"]))
    return EXIT_DONE


@reading_app.command()
def doctor(
    ctx: typer.Context,
    check: Annotated[  # noqa: ARG001 - the only mode so far, named for the repairs to come
        bool, typer.Option("--check", help="only check, which is the default")
    ] = True,
) -> int:
    """Check what must always hold in the store; nothing is changed."""
    desk: Desk = ctx.obj
    with desk.open().read() as reader:
        checks = [asdict(one) for one in check_invariants(reader)]
    desk.output.emit({"checks": checks}, lambda console: render.render_checks(console, checks))
    return EXIT_FAILED if any(one["broken"] for one in checks) else EXIT_DONE
