"""The verb that reads the store as a host does: recall."""

from typing import Annotated

import typer

from deployments import render
from deployments.desk import EXIT_DONE, Desk, Now, Where
from deployments.options import parse_choice, parse_moment, parse_selector
from flows.edge import choose_embedder, new_event_id, read_clock
from storage.models import DEFAULT_NAMESPACE
from tasks.contexts import record_uses
from tasks.fusion import CONVEX_45, RRF_K60
from tasks.recall import SemanticSource, describe_hit, parse_recall_policy, recall_memories

FUSIONS = {"rrf": RRF_K60, "convex": CONVEX_45}

reading_app = typer.Typer()


@reading_app.command("recall")
def recall_(
    ctx: typer.Context,
    query: str,
    limit: Annotated[int, typer.Option(help="most hits, 1..100")] = 10,
    related: Annotated[int, typer.Option(help="neighbours of hits to look at, 0..100")] = 0,
    floor: Annotated[float, typer.Option(help="smallest score of a hit, 0..1")] = 0.4,
    use: Annotated[bool, typer.Option("--use", help="count every hit as used")] = False,
    embedder: Annotated[
        str | None, typer.Option(help="a built-in name or module:factory; absent: the setting")
    ] = None,
    fusion: Annotated[
        str | None, typer.Option(help="rrf or convex; absent: that of the index")
    ] = None,
    namespace: Where = None,
    now: Now = None,
) -> int:
    """Find the active memories that fit a text; a preview unless --use."""
    desk: Desk = ctx.obj
    at = parse_moment(now, read_clock())
    owner = parse_selector(namespace) or DEFAULT_NAMESPACE
    values = {"max_results": limit, "max_related_lookups": related, "min_lexical_score": floor}
    policy = parse_recall_policy(values)
    source = SemanticSource(
        load=choose_embedder(embedder or desk.settings.embedder).load,
        fusion=FUSIONS[parse_choice(fusion, tuple(FUSIONS), "--fusion")] if fusion else None,
    )
    store = desk.open()
    found = recall_memories(store, owner, query, policy=policy, now=at, source=source)
    if use:
        record_uses(store, owner, found.hits, occurred_at=at, new_id=new_event_id)
    if found.warning:
        desk.output.note(f"warning: {found.warning}")
    hits = [describe_hit(hit) for hit in found.hits]
    value = {"hits": hits, "semantic": found.semantic}
    desk.output.emit(value, lambda console: render.render_hits(console, hits))
    return EXIT_DONE
