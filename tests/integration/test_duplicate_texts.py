"""What consolidation compares is stored once for each text, and anew when the text changes."""

from helpers.duplicates import PROFILE, fill, tokenise
from helpers.rows import NOW
from helpers.runs import dump_tables

from storage import Store
from storage.candidates import gather_candidates
from storage.duplicate_texts import TokenisedText, delete_tokens, index_missing_tokens
from storage.terms import insert_terms, term_rows

_COUNT = """
SELECT
    (SELECT count(*) FROM duplicate_texts), (SELECT count(*) FROM duplicate_keys),
    (SELECT count(DISTINCT text_number) FROM duplicate_texts)
"""
_CHANGE = "UPDATE memories SET content = $content WHERE namespace_id = $owner AND id = $name"
_RETIRE = "UPDATE memories SET status = 'superseded' WHERE namespace_id = $owner AND id = $name"
_MARK = "CREATE TEMP TABLE removed AS SELECT 'a' AS memory_id"


def add(store: Store, owner: int, **contents: str) -> int:
    return fill(store, owner, *({"id": name, "content": text} for name, text in contents.items()))


def index(store: Store, owner: int, profile: str = PROFILE) -> list[str]:
    """Index what is missing; give the texts that were tokenised."""
    seen = []

    def tokenise_and_tell(content: str) -> TokenisedText:
        seen.append(content)
        return tokenise(content)

    assert index_missing_tokens(store, owner, tokenise_and_tell, profile=profile) == len(seen)
    return seen


def count(store: Store) -> tuple[int, int, int]:
    with store.read() as reader:
        ((texts, keys, numbers),) = reader.rows(_COUNT)
    return texts, keys, numbers


def copies(store: Store, owner: int) -> list[tuple[str, str]]:
    with store.read() as reader:
        found = gather_candidates(reader, owner, profile=PROFILE, now=NOW).list_copies()
    return [(row["memory_id"], row["representative_id"]) for row in found.to_pylist()]


def test_second_run_is_noop(store: Store, namespace_id: int) -> None:
    assert add(store, namespace_id, a="one two", b="one", c="!!!") == 3
    before = dump_tables(store)
    assert index(store, namespace_id) == []
    assert dump_tables(store) == before
    assert count(store) == (3, 2, 3)


def test_only_a_changed_text_is_tokenised_again(store: Store, namespace_id: int) -> None:
    add(store, namespace_id, a="one two", b="one three", c="one three")
    assert copies(store, namespace_id) == [("c", "b")]
    with store.write() as writer:
        change = {"owner": namespace_id, "name": "a", "content": "one three"}
        writer.execute(_CHANGE, change)
        insert_terms(writer, term_rows([("a", "one three")], namespace_id))
    assert copies(store, namespace_id) == [("c", "b")]
    assert index(store, namespace_id) == ["one three"]
    assert copies(store, namespace_id) == [("b", "a"), ("c", "a")]
    assert count(store) == (3, 3, 3)


def test_texts_of_memories_that_ended_are_dropped(store: Store, namespace_id: int) -> None:
    add(store, namespace_id, a="one two", b="one")
    with store.write() as writer:
        writer.execute(_RETIRE, {"owner": namespace_id, "name": "a"})
    assert index(store, namespace_id) == []
    assert count(store) == (1, 1, 1)


def test_another_profile_makes_every_row_anew(store: Store, namespace_id: int) -> None:
    add(store, namespace_id, a="one two", b="one")
    assert sorted(index(store, namespace_id, profile="another")) == ["one", "one two"]
    assert count(store) == (2, 2, 2)
    assert index(store, namespace_id, profile="another") == []


def test_another_namespace_keeps_its_rows(store: Store, namespace_id: int) -> None:
    add(store, namespace_id, a="one")
    add(store, 77, a="two", b="three")
    assert index(store, namespace_id, profile="another") == ["one"]
    assert index(store, 77) == []
    assert count(store) == (3, 3, 3)


def test_what_another_process_stored_meanwhile_stays(store: Store, namespace_id: int) -> None:
    add(store, namespace_id, a="one two", b="one")
    index(store, namespace_id, profile="another")

    def be_overtaken(content: str) -> TokenisedText:
        index_missing_tokens(store, namespace_id, tokenise, profile=PROFILE)
        return tokenise(content)

    assert index_missing_tokens(store, namespace_id, be_overtaken, profile=PROFILE) == 0
    assert count(store) == (2, 2, 2)


def test_rows_of_removed_memories_are_deleted(store: Store, namespace_id: int) -> None:
    add(store, namespace_id, a="one two", b="one")
    add(store, 77, a="two")
    with store.write() as writer:
        writer.execute(_MARK)
        delete_tokens(writer, namespace_id)
    assert count(store) == (2, 2, 2)
    assert index(store, namespace_id) == ["one two"]


def test_only_hashes_are_stored(store: Store, namespace_id: int) -> None:
    add(store, namespace_id, a="canary word")
    tables = dump_tables(store)
    stored = repr([tables["duplicate_texts"], tables["duplicate_keys"]])
    assert "canary" not in stored
    assert PROFILE in stored
