"""Change a memory of a published store and publish again, as another process would.

Arguments: the store's directory, tenant/principal/scope, a text to add. Says `published`.
"""

import sys
from pathlib import Path

from helpers.indexes import MapEmbedder, lean, publish
from helpers.sets import change_set, create

from storage import open_store
from storage.models import parse_namespace
from storage.repository import apply_change_set

store, space, text = open_store(Path(sys.argv[1])), parse_namespace(sys.argv[2]), sys.argv[3]
made = change_set(f"added {text}", 1, create(f"added {text}", text))
apply_change_set(store, {**made, "namespace": space.model_dump()})
publish(store, space, MapEmbedder({text: lean(0.95)}))
sys.stdout.write("published\n")
