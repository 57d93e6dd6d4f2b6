"""The tokenizer in use, found in the script's frames, against the one saved in a folder; and padding that ends a text."""

import json
import re
from types import SimpleNamespace

import pytest
import torch
from firstfault.recorder.probes.special_tokens import special_tokens
from firstfault.recorder.probes.used_tokenizers import folder_beside, judge
from firstfault.schemas.files.probe_report import Picture
from torch import nn


class Letters:
    def __init__(self, letters, pad=0, end=1):
        self.letters = ["<pad>", "<end>", *letters]
        self.pad_token_id, self.eos_token_id = pad, end
        self.eos_token = self.letters[1]

    def encode(self, text):
        return [self.letters.index(letter) for letter in text]

    def decode(self, ids):
        return "".join(self.letters[i] for i in ids)

    def get_vocab(self):
        return {letter: i for i, letter in enumerate(self.letters)}


class Fixed(Letters):
    """As scripts write them: ``encode`` fills up to a width; ``first`` is the number of the first letter for ``decode``."""

    def __init__(self, letters, first=2):
        super().__init__(letters)
        self.first = first

    def encode(self, text, width):
        return super().encode(text) + [0] * (width - len(text))

    def decode(self, ids):
        return "".join(self.letters[2 + (i - self.first) % (len(self.letters) - 2)] for i in ids if i > 1)


def judged(folder, *batch, tokenizer=None, models=(), **kwargs):
    tokenizer = tokenizer or Letters("abc", **kwargs)  # found in this frame, as in a script's
    shown = [Picture(name=str(i), shape=list(t.shape), dtype="int64") for i, t in enumerate(batch)]
    found = judge(folder, list(batch), shown, models)
    assert tokenizer.letters
    return {f.probe: f for f in found}, shown


@pytest.mark.parametrize(
    ("saved", "code"), [("abc", "tokenizer-same"), ("acb", "tokenizer-vocabulary"), ("ab", "tokenizer-vocabulary")]
)
def test_the_tokenizer_in_use_is_compared_with_the_saved_vocabulary(tmp_path, saved, code):
    (tmp_path / "vocab.json").write_text(json.dumps(Letters(saved).get_vocab()))
    found, shown = judged(str(tmp_path), torch.tensor([[2, 3, 4]]))
    assert found["tokenizer"].code == code
    assert found["tokenizer-round-trip"].outcome == "passed"
    assert shown[0].text == "abc"


@pytest.mark.parametrize(("first", "outcome"), [(2, "passed"), (1, "doubtful")])
def test_a_decoder_that_is_one_off_is_found_also_where_encode_wants_a_width(first, outcome):
    found, _ = judged(None, torch.tensor([[2, 3, 4, 1, 0]]), tokenizer=Fixed("abc", first))
    assert found["tokenizer-round-trip"].outcome == outcome


@pytest.mark.parametrize(
    ("padding", "code"),
    [
        (0, "padding-apart"),
        (3, "padding-is-a-token"),
        (None, None),
        (4, "padding-is-a-token"),  # among the texts it is at the ends alone
    ],
)
def test_a_letter_that_has_the_number_of_padding_is_found(padding, code):
    model = nn.Sequential(nn.Embedding(5, 4, padding_idx=padding))
    found, _ = judged(None, torch.tensor([[2, 3, 2, 4]]), models=[model])
    if code is None:
        assert "tokenizer-padding" not in found
    else:
        assert found["tokenizer-padding"].code == code
        assert found["tokenizer-padding"].values.get("count", 1) == 1


class Pieces:
    """Words of two letters a piece, whose last piece carries the end of its word where ``ends`` says so; the rest is unknown."""

    letters = "abcdefgh"

    def __init__(self, ends, unknown):
        self.ends, self.unknown = ends, unknown

    def encode(self, text):
        if self.unknown == "left out":
            text = "".join(c for c in text if c in self.letters)
        return [n for word in text.split() for n in (*map(self.letters.index, word), *([8] if self.ends else []))]

    def decode(self, ids):
        return "".join(" " if i == 8 else self.letters[i] for i in ids).strip()


@pytest.mark.parametrize(
    ("ends", "unknown", "outcome"),
    [(True, "refused", "passed"), (False, "refused", "doubtful"), (False, "left out", "passed")],
)
def test_words_whose_ends_leave_no_token_are_found_where_no_text_of_the_batch_has_a_blank(ends, unknown, outcome):
    found, _ = judged(None, torch.tensor([[0, 1, 2, 3, 4, 5, 6, 7] * 3]), tokenizer=Pieces(ends, unknown))
    assert found["tokenizer-round-trip"].outcome == outcome


class Words:
    """Words by a vocabulary with special tokens; ``pattern`` says what a word is."""

    def __init__(self, pattern=r"<\w+>|\w+|[^\w\s]", **numbers):
        self.pattern = pattern
        self.itos = ["<pad>", "<bos>", "<eos>", "<unk>", "<", ">", "eos", "bos", "red", "blue"]
        self.pad_id, self.bos_id, self.eos_id, self.unk_id = range(4)
        vars(self).update(numbers)

    def encode(self, text):
        return [self.itos.index(w) for w in re.findall(self.pattern, text)]

    def decode(self, ids):
        return " ".join(self.itos[i] for i in ids)


@pytest.mark.parametrize(
    ("tokenizer", "rows", "ignored", "code"),
    [
        (Words(), [[1, 8, 9, 2], [1, 8, 2, 0]], [0], "special-tokens"),
        (Words(unk_id=8), [[1, 8, 9, 2], [1, 8, 2, 0]], [0], "special-number-of-a-word"),
        (Words(r"\w+|[^\w\s]"), [[1, 8, 9, 4, 6, 5], [1, 8, 4, 6, 5, 0]], [0], "special-token-split"),
        (Words(r"\w+|[^\w\s]"), [[1, 8, 9, 2], [1, 8, 2, 0]], [0], "special-tokens"),  # added as a number
        (Words(pad_id=2), [[1, 8, 9, 2], [1, 8, 2, 2]], [2], "end-ignored"),
        (Words(pad_id=2), [[1, 8, 9, 2], [1, 8, 2, 2]], [-100], "special-tokens"),
        (Words(), [[1, 8, 9, 0], [1, 8, 0, 0]], [0], "end-missing"),
        (Words(), [[1, 8, 9, 0], [1, 8, 0, 0], [-100, -100, 9, -100], [-100, 8, -100, -100]], [-100], "end-missing"),
        (Words(), [[1, 8, 9, 0], [1, 8, 0, 0], [-100, 9, 0, 0], [8, 0, 0, 0]], [-100], "special-tokens"),
        (Words(), [[1, 8, 9, 0], [1, 8, 0, 0]], [-100], "special-tokens"),  # no loss of tokens
        (Words(), [[3, 3, 3, 9] * 12, [3, 8, 3, 0] * 12], [-100], "mostly-unknown"),
        (Words(), [[3, 8, 9, 9] * 12, [3, 8, 8, 0] * 12], [-100], "special-tokens"),
    ],
)
def test_special_tokens_with_a_words_number_taken_apart_or_without_an_end_are_found(tokenizer, rows, ignored, code):
    (found,) = special_tokens(tokenizer, [torch.tensor(rows), torch.rand(2, 3)], ignored)
    assert found.code == code


class Called:
    """Without an ``encode``: called, as those of transformers are; decoding gives words."""

    def __init__(self):
        self.vocab = {"<pad>": 0, "<unk>": 1, "a": 2, "b": 3}

    def __call__(self, text):
        return [self.vocab.get(c, 1) for c in text]

    def decode(self, ids):
        return ["-ab"[i - 1] if i else "" for i in ids]


def test_a_tokenizer_that_is_called_is_found_and_a_list_of_words_is_no_text():
    tokenizer = Called()
    shown = [Picture(name="0", shape=[2, 40], dtype="int64")]
    found = {f.probe: f.code for f in judge(None, [torch.tensor([[1, 1, 1, 2] * 10] * 2)], shown)}
    assert tokenizer("ab") == [2, 3]
    assert found["tokenizer-special"] == "mostly-unknown"
    assert found["tokenizer-round-trip"] == "no-texts"
    assert shown[0].text.startswith("- - - a")


def test_a_tokenizer_without_special_tokens_is_not_asked_for_them():
    plain = SimpleNamespace(encode=list, vocab={"a": 0, "b": 1})
    assert special_tokens(plain, [torch.tensor([[0, 1]])], [1]) == []


def test_a_file_that_cannot_be_read_is_told(tmp_path):
    (tmp_path / "vocab.json").write_text("{")
    assert judged(str(tmp_path), torch.tensor([[2]]))[0]["tokenizer"].code == "tokenizer-raised"


@pytest.mark.parametrize(
    ("pad", "last_label", "doubted"),
    [(1, -100, True), (1, 1, False), (0, -100, False)],  # the twins: the end is a target; padding is a token of its own
)
def test_padding_that_ends_a_text_and_is_no_target_is_doubted(pad, last_label, doubted):
    tokens, labels = torch.tensor([[2, 3, 1, pad]]), torch.tensor([[2, 3, last_label, -100]])
    found, _ = judged(None, tokens, labels, pad=pad)
    assert ("pad-is-eos" in found) is doubted


def test_the_folder_of_a_model_is_taken_where_a_tokenizer_was_saved_too(tmp_path):
    model = SimpleNamespace(config=SimpleNamespace(_name_or_path=str(tmp_path)))
    assert folder_beside([model]) is None
    (tmp_path / "tokenizer.json").write_text("{}")
    assert folder_beside([object(), model]) == str(tmp_path)
