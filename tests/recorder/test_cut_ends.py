"""Tokenizers that cut the end off long texts: tried on texts of their own words, where rows of the batch lack it too."""

from collections import Counter

import pytest
import torch
from firstfault.recorder.probes.cut_ends import ends_cut
from firstfault.recorder.probes.vocabularies import find_encoder
from firstfault.recorder.script.written_tokens import end_place_read
from torch import nn

WORDS = ["a", "small", "red", "cross", "in", "the", "upper", "left", "part", "of", "this", "old", "photo"]
CLIP = """
def forward(self, text):
    x = self.blocks(self.token(text))
    return self.proj(x[torch.arange(len(text)), text.argmax(dim=-1)])
"""
MEAN = """
def forward(self, text):
    return self.proj(self.blocks(self.token(text)).mean(1))
"""


class Words:
    """Fixed width; ``mend`` puts the end last, ``crop`` takes any window, as of a protein."""

    def __init__(self, width=8, mend=False, crop=False):
        self.vocab = {"<pad>": 0, **{w: i for i, w in enumerate(WORDS, 1)}, "<sot>": 20, "<eos>": 21}
        self.width, self.mend, self.crop = width, mend, crop

    def encode(self, text):
        return [self.vocab[w] for w in text.split()]

    def decode(self, ids):
        return " ".join(WORDS[i - 1] for i in ids if 0 < i < 20)

    def __call__(self, text):
        ids = [20, *self.encode(text), 21]
        if self.crop and len(ids) > self.width:
            ids = ids[int(torch.randint(len(ids) - self.width, ())) :]
        ids = ids[: self.width]
        if self.mend:
            ids[-1] = 21
        return torch.tensor(ids + [0] * (self.width - len(ids)))


class Residues:
    """The width of a batch is that of its longest text; ``room`` is what is added for special tokens."""

    def __init__(self, room=0, limit=None):
        self.vocab = {"<cls>": 0, "<pad>": 1, "<eos>": 2, **{c: i for i, c in enumerate("ACDEFGHIKLMNPQRSTVWY", 3)}}
        self.room, self.limit = room, limit

    def encode(self, text):
        return [0, *(self.vocab[c] for c in text), 2]

    def decode(self, ids):
        return str(ids)

    def batch_encode(self, texts, most=None):
        width = most or self.limit or max(len(t) for t in texts) + self.room
        out = torch.full((len(texts), width), 1)
        for row, text in zip(out, texts, strict=True):
            ids = self.encode(text)[:width]
            row[: len(ids)] = torch.tensor(ids)
        return out


def judged(tmp_path, tokenizer, batch, source=MEAN):
    (tmp_path / "train.py").write_text(source)
    before = torch.get_rng_state()
    found = [f.code for f in ends_cut(tokenizer, [batch], [str(tmp_path / "train.py")])]
    assert torch.equal(before, torch.get_rng_state())
    return found


@pytest.mark.parametrize(
    ("source", "options", "code"),
    [
        (CLIP, {}, ["end-cut-where-read"]),
        (CLIP, {"mend": True}, []),
        (MEAN, {}, []),  # a text that goes on has no end, and nobody looks for one
        (MEAN, {"crop": True}, []),
        (CLIP, {"width": 16}, []),  # no text of the batch is as long
    ],
)
def test_an_end_that_is_cut_off_at_the_width_matters_where_its_place_is_read(tmp_path, source, options, code):
    tokenizer = Words(**options)
    batch = torch.stack([tokenizer("a small cross"), tokenizer(" ".join(WORDS[:9]))])
    assert judged(tmp_path, tokenizer, batch, source) == code


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({}, ["end-cut-off-longest"]),
        ({"room": 1}, ["end-cut-off-longest"]),
        ({"room": 2}, []),
        ({"limit": 6}, []),  # a limit that was asked for
    ],
)
def test_a_width_without_room_for_special_tokens_is_doubted_and_a_limit_is_not(tmp_path, options, code):
    tokenizer = Residues(**options)
    assert judged(tmp_path, tokenizer, tokenizer.batch_encode(["ACDK", "ACDKLLMNP"])) == code


class Plain:
    """No ``decode``, and the vocabulary by a name of its own."""

    pad_id, eos_id = 0, 1

    def __init__(self, room=0):
        self.char_ids = {c: i for i, c in enumerate("ABCDEFGHIJKL", 2)}
        self.room = room

    def encode_all(self, texts):
        width = max(map(len, texts)) + self.room
        rows = [([self.char_ids[c] for c in text] + [self.eos_id])[:width] for text in texts]
        return {"input_ids": [row + [self.pad_id] * (width - len(row)) for row in rows], "width": width}


@pytest.mark.parametrize(("room", "code"), [(0, ["end-cut-off-longest"]), (1, [])])
def test_an_encoder_without_decode_is_found_in_an_object_of_the_script(tmp_path, room, code):
    tokenizer = Plain(room)
    holder = Residues()
    holder.parts, holder.vocab = tokenizer, {}
    assert find_encoder([{"n": 1, "model": nn.Linear(2, 2), "holder": holder}]) is tokenizer
    assert find_encoder([{"vocab": tokenizer.char_ids, "counts": Counter(WORDS)}]) is None
    batch = torch.tensor(tokenizer.encode_all(["ABC", "ABCDEF"])["input_ids"])
    assert judged(tmp_path, tokenizer, batch) == code


def test_inputs_without_their_last_token_are_no_cut_texts(tmp_path):
    tokenizer = Residues(room=2)
    assert judged(tmp_path, tokenizer, tokenizer.batch_encode(["ACDK", "ACDKLLMNP"])[:, :-1], CLIP) == []


def test_an_end_that_is_also_padding_says_nothing(tmp_path):
    tokenizer = Words()
    tokenizer.pad_token_id = 21
    assert judged(tmp_path, tokenizer, torch.tensor([[20, 1, 2, 3, 4, 5, 6, 7]]), CLIP) == []


@pytest.mark.parametrize(
    ("body", "read"),
    [
        (
            "    x = self.emb(ids)\n    at = (ids == self.eos_id).int().argmax(-1)\n    return x[torch.arange(2), at]\n",
            4,
        ),
        ("    x = self.emb(ids)\n    return x.gather(1, ids.argmax(-1)[:, None, None])\n", 3),
        ("    x = self.emb(ids)\n    return x[torch.arange(2), torch.argmax(ids, -1)]\n", 3),
        ("    best = self.head(self.emb(ids)).argmax(-1)\n    return best\n", None),
        ("    q = self.net(ids)\n    return q[torch.arange(2), q.argmax(-1)]\n", None),
        ("    x = self.emb(ids)\n    return x[torch.arange(2), (ids != self.pad_id).sum(1) - 1]\n", None),
        ("    x = self.emb(ids)\n    return x[:, 0]\n", None),
    ],
)
def test_a_model_that_looks_for_the_end_says_so_in_its_source(tmp_path, body, read):
    (file := tmp_path / "model.py").write_text("def forward(self, ids):\n" + body)
    assert end_place_read(str(file)) == read
