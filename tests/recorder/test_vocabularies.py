"""Vocabularies of a script's own: found in its objects; words that share numbers, and numbers in the order of a set."""

from collections import Counter
from random import Random
from types import SimpleNamespace

import pytest
import torch
from firstfault.recorder.probes.vocabularies import Vocabulary, find_vocabularies, follows_a_set, judge_vocabularies
from firstfault.recorder.script.written_tokens import saved_without
from torch import nn

SPECIAL = {"<pad>": 0, "<unk>": 1}


def numbered(*runs, special=SPECIAL):
    """Words named by run and place, run after run from the number it begins with."""
    words = dict(special)
    for run, (begin, count) in enumerate(runs):
        words.update({f"w{run}x{i}": begin + i for i in range(count)})
    return words


class Tokenizer:
    def __init__(self, vocab):
        self.vocab = vocab
        self.counts = Counter(vocab)


def test_mappings_in_closures_and_in_nested_objects_are_found_and_counts_are_not():
    words, others, few = numbered((2, 20)), numbered((2, 30)), {"a": 0, "b": 1}
    processor = Tokenizer(few)
    processor.parts = {"user": Tokenizer(words)}

    def collate(rows):
        return [others[row] for row in rows]

    sparse = {f"w{i}": i * i for i in range(30)}  # a count of each word
    found = find_vocabularies([{"processor": processor, "collate": collate, "sparse": sparse, "few": few}])
    assert {v.name: len(v.words) for v in found} == {"processor.parts['user'].vocab": 22, "others": 32}


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (numbered((2, 40), (42, 30), (42, 30)), "words-share-numbers"),
        (numbered((2, 40), (20, 30)), "words-share-numbers"),  # from a length that left some out
        (numbered((2, 40), (42, 30), (72, 30)), "vocabulary-holds"),
        (numbered((2, 40), (42, 30), (42, 5)), "vocabulary-holds"),  # as few may be second names
        (numbered((2, 40), (2, 40)), "vocabulary-holds"),  # second names of all
        (numbered((0, 40), (5, 30), special={}), "vocabulary-holds"),  # the speakers of recordings
        ({f"w{i}": i % 40 for i in range(90)}, "vocabulary-holds"),
        (SPECIAL | {f"w{i}": 2 + hash((i, 3)) % 40 for i in range(300)}, "vocabulary-holds"),  # buckets
        (
            SPECIAL | {f"w{i}": 2 + i for i in range(60)} | {f"W{i}": 2 + i for i in range(20, 60)},
            "vocabulary-holds",
        ),
    ],
)
def test_later_words_with_the_numbers_of_earlier_ones_are_doubted_and_classes_are_not(words, code):
    batch = [torch.tensor(sorted(set(words.values())))]
    found = judge_vocabularies([Vocabulary("vocab", words)], [], batch, [nn.Embedding(max(words.values()) + 1, 4)])
    assert [f.code for f in found] == [code]


@pytest.mark.parametrize(
    ("batch", "rows"),
    [(torch.rand(4, 20), 72), (torch.arange(200), 72), (torch.arange(72), 500), (torch.tensor([0, 1, 1]), 72)],
)
def test_a_mapping_that_no_number_of_the_batch_comes_from_is_not_judged(batch, rows):
    words = numbered((2, 40), (42, 30), (42, 30))
    assert judge_vocabularies([Vocabulary("vocab", words)], [], [batch], [nn.Embedding(rows, 4)]) == []


@pytest.mark.parametrize("count", [30, 60, 3000])
def test_the_order_of_a_set_is_known_and_others_are_not(count):
    words = [f"word {i * 37 % count}" for i in range(count)]
    assert follows_a_set(["<pad>", "<unk>", *set(words)])
    grown = set[str]()
    for word in words:
        grown.add(word)
    assert follows_a_set([*grown, "<pad>"])
    assert not follows_a_set(sorted(words))
    assert not follows_a_set(words)
    assert not follows_a_set(list(dict.fromkeys(words[::-1])))


@pytest.mark.parametrize("count", [10, 12, 15, 20])
def test_no_few_words_stand_as_in_a_set_by_chance(count):
    words = [f"word {i}" for i in range(40 * count)]
    shuffle = Random(count).shuffle
    for _ in range(200):
        shuffle(words)
        assert not follows_a_set(["<pad>", "<unk>", *words[:count]])


SAVES = "import torch\ntorch.save({'net': net.state_dict(), 'epoch': 1}, path)\n"


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (SAVES, 2),
        ("print(1)\n", 0),
        (SAVES.replace("'epoch'", "'vocab'"), None),
        (SAVES.replace("1}", "stoi}"), None),
        ("state = dict(net=net)\nstate['token_to_int'] = words\ntorch.save(state, path)\n", None),
        ("import json\nwords = json.load(open(path))\n" + SAVES, None),
        ("words = open('vocab.txt').read().split()\n" + SAVES, None),
        ("json.dump(words, open('vocab.json', 'w'))\n" + SAVES, 3),
        ("text = open('corpus.txt').read()\n" + SAVES, 3),
    ],
)
def test_what_is_saved_with_a_model_or_read_again_is_read_in_the_source(tmp_path, source, line):
    (tmp_path / "train.py").write_text(source)
    assert saved_without(str(tmp_path / "train.py"), "words_of_all") == line


@pytest.mark.parametrize(
    ("ordered", "source", "seed", "code"),
    [
        (set, SAVES, None, "words-in-order-of-a-set"),
        (sorted, SAVES, None, "vocabulary-holds"),
        (set, SAVES.replace("1}", "stoi}"), None, "vocabulary-holds"),
        (set, "print(1)\n", None, "vocabulary-holds"),
        (set, SAVES, "0", "vocabulary-holds"),
    ],
)
def test_numbers_in_the_order_of_a_set_are_doubted_where_a_model_is_saved_without_them(
    tmp_path, monkeypatch, ordered, source, seed, code
):
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    if seed is not None:
        monkeypatch.setenv("PYTHONHASHSEED", seed)
    (tmp_path / "train.py").write_text(source)
    words = {w: i for i, w in enumerate(["pad", *ordered([f"word {i}" for i in range(40)])])}
    model = nn.Embedding(41, 4)
    found = judge_vocabularies([Vocabulary("words", words)], [str(tmp_path / "train.py")], [torch.arange(41)], [model])
    assert [f.code for f in found] == [code]


def test_an_object_of_a_library_is_not_looked_into():
    assert find_vocabularies([{"held": SimpleNamespace(vocab=numbered((2, 20)))}]) == []
