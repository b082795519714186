"""Open the store afresh, recall a query a few times, and admit every hit; says each admitted id.

Arguments: the store's directory, an agent, an epoch, how many turns, the query.
"""

import sys
from datetime import timedelta

from helpers.sets import SPACE, START

from storage import open_store
from storage.access import AccessEvent, record_events
from tasks.recall import RecallPolicy, recall

store, agent, epoch, turns = open_store(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
now = START + timedelta(days=1)
for turn in range(turns):
    with store.read() as reader:
        hits = recall(reader, SPACE, sys.argv[5], policy=RecallPolicy(), now=now)
    events = [
        AccessEvent(
            id=f"{agent}-{epoch}-{turn}-{hit.memory_id}",
            namespace=SPACE,
            memory_id=hit.memory_id,
            revision=hit.revision,
            occurred_at=now,
            actor=agent,
        )
        for hit in hits
    ]
    # The same list twice: a replay counts once.
    for outcomes in (record_events(store, "admission", events) for _ in range(2)):
        if any(outcomes):
            sys.stdout.write("refused\n")
    sys.stdout.write("".join(f"{event.memory_id}\n" for event in events))
