"""Padding that has the number of the end: whether a loss counts any end, by the gradient of its scores."""

import pytest
import torch
from firstfault.recorder.probes.ends_learnt import Targets, ends_learnt
from firstfault.recorder.probes.special_tokens import named_numbers
from firstfault.recorder.script.written_tokens import end_in_use
from torch.nn import functional as F

END = 1
TEXTS = torch.tensor([[5, 6, 7, 8, 1, 1, 1], [4, 6, 3, 1, 1, 1, 1]])
LENGTHS = torch.tensor([5, 4])
INPUTS, LABELS = TEXTS[:, :-1], TEXTS[:, 1:]
ADDS = "def encode(words):\n    return [vocab[w] for w in words] + [tok.eos_token_id]\n"


def by_mask(scores, counted):
    losses = F.cross_entropy(scores.flatten(0, 1), LABELS.flatten(), reduction="none")
    return (losses * counted.flatten().float()).mean()


def by_number(scores, number, labels=LABELS):
    return F.cross_entropy(scores.transpose(1, 2), labels, ignore_index=number)


BY_LENGTH = torch.arange(6) < (LENGTHS - 1)[:, None]


@pytest.mark.parametrize(
    ("loss", "source", "pad", "code"),
    [
        (lambda s: by_mask(s, LABELS != END), ADDS, END, "end-never-counts"),
        (lambda s: by_number(s, END), ADDS, END, "end-never-counts"),
        (lambda s: by_number(s, -100, LABELS.masked_fill(LABELS == END, -100)), ADDS, END, "end-never-counts"),
        (lambda s: by_mask(s, LABELS != END), "if token == eos_id:\n    pass\n", END, "end-never-counts"),
        (lambda s: by_mask(s, BY_LENGTH), ADDS, END, "end-counts"),
        (lambda s: by_mask(s, torch.ones(2, 6)), ADDS, END, "end-counts"),
        (
            lambda s: by_mask(s, LABELS != END),
            "[tok.eos_id] + words\n",
            END,
            None,
        ),  # it begins texts, and none is to end
        (lambda s: by_mask(s, LABELS != END), ADDS, 0, None),
        (lambda s: by_number(s, -100, INPUTS.masked_fill(INPUTS == END, -100)), ADDS, END, None),  # of masked words
    ],
)
def test_an_end_that_no_loss_counts_is_doubted_however_it_is_left_out(tmp_path, loss, source, pad, code):
    (tmp_path / "train.py").write_text(source)
    scores, targets, original = torch.randn(2, 6, 9, requires_grad=True) * 1.0, Targets(), F.cross_entropy

    def watched(*args, **kwargs):
        targets.watch(args, kwargs)
        return original(*args, **kwargs)

    F.cross_entropy = watched
    try:
        loss(scores).backward()
    finally:
        F.cross_entropy = original
    found = ends_learnt([{"eos": END, "pad": pad}], [INPUTS], targets, [str(tmp_path / "train.py")])
    assert [f.code for f in found] == ([code] if code else [])


class Tokenizer:
    def __init__(self, pad_token):
        self.vocab = {"<unk>": 0, "<eos>": 1, "<pad>": 2}
        self.pad_token, self.mask_token = pad_token, None

    @property
    def eos_token_id(self):
        return self.vocab["<eos>"]

    @property
    def mask_token_id(self):
        raise AssertionError


@pytest.mark.parametrize("pad_token", ["<eos>", "<pad>"])
def test_numbers_of_padding_and_the_end_are_known_by_properties_names_and_spellings(pad_token):
    tokenizer = Tokenizer(pad_token)
    assert named_numbers(tokenizer, tokenizer.vocab) == {"eos": 1, "pad": tokenizer.vocab[pad_token]}
    assert named_numbers(None, tokenizer.vocab) == {"eos": 1, "pad": 2}


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("x = 1\nids.append(EOS)\n", 2),
        ("text = text + '<|endoftext|>'\n", 1),
        ("ids = [bos, *words, vocab['<eos>']]\n", 1),
        ("if token != self.end_token_id:\n    pass\n", 1),
        ("end = start + stop\n", None),
        ("if pos == end:\n    pass\n", None),
    ],
)
def test_ends_are_read_in_the_source(tmp_path, source, line):
    (tmp_path / "train.py").write_text(source)
    assert end_in_use(str(tmp_path / "train.py")) == line
