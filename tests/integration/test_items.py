"""Looking for terms in the database leaves nothing out that matching would find."""

import pytest
from helpers.rows import NOW, memory_table
from helpers.vectors import copy_store
from hypothesis import given, settings
from hypothesis import strategies as st

from storage import Store
from storage.items import read_texts
from storage.matching import match_strength, match_terms
from storage.memories import insert_memories
from tasks.memory_search import rank_matches

# Letters whose small forms are ASCII, what a pattern or JSON would escape, and plain ones.
SIGNS = "aAkKs\u212a\u0130\u017f\u03a3\u00df\\/.-:@\"'()[]{}*+?|^$ 0\u00bd\u6570"
CONTENTS = [
    "Rust notes",
    "\u212aelvin in capitals",
    "na\u0130ve \u0130stanbul",
    "a.b and a\\b",
    "C:\\temp\\x (draft) [1] {2}",
    "\u6570\u636e\u5e93 K8s",
    "what? +1 ^ $5 | *",
]
TAGS = [["Release-Notes"], [], ['quo"te'], ["\u212aube"], ["back\\slash"], ["a:b@c"], ["x"]]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = copy_store(tmp_path_factory.mktemp("filled") / "store")
    rows = [
        {
            "id": f"m{i}",
            "content": content,
            "tags": tags,
            "kind": "semantic" if i % 2 else "working",
        }
        for i, (content, tags) in enumerate(zip(CONTENTS, TAGS, strict=True))
    ]
    with store.write() as writer:
        insert_memories(writer, memory_table(*rows))
    return store


def matching(query: str) -> set[str]:
    kinds = ("working", "semantic")
    return {
        f"m{i}"
        for i, (content, tags) in enumerate(zip(CONTENTS, TAGS, strict=True))
        if match_strength(query, content, tags, kinds[i % 2]) is not None
    }


@settings(max_examples=120, deadline=None)
@given(
    st.one_of(
        st.text(SIGNS, max_size=6),
        st.sampled_from(
            [*CONTENTS, *(tag for tags in TAGS for tag in tags), "sem", "kelvin", "nai"]
        ),
        st.lists(st.text("kasin", min_size=2, max_size=3), min_size=30, max_size=36).map(" ".join),
    )
)
def test_search_finds_all_that_matches(filled: Store, query: str) -> None:
    with filled.read() as reader:
        found = rank_matches(reader, 1, query, 100, now=NOW)
    assert {one.memory_id for one in found} == matching(query)


def test_terms_narrow_what_is_read(filled: Store) -> None:
    with filled.read() as reader:
        texts = read_texts(reader, 1, match_terms("rust release"), now=NOW)
    # m1 to m3 have a letter whose small form is ASCII, in the text or in a tag.
    assert {text.memory_id for text in texts} == {"m0", "m1", "m2", "m3"}
