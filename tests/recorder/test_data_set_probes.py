"""Data sets that say another length than they have, and two that number the same words differently."""

import pytest
import torch
from firstfault.recorder.probes import two_numberings, vocabularies
from firstfault.recorder.probes.samples_beyond import judge
from firstfault.recorder.probes.two_numberings import numbered_apart
from torch.utils.data import DataLoader, Dataset


class Pairs(Dataset):
    def __init__(self, kind: str) -> None:
        generator = torch.Generator().manual_seed(0)
        self.kind, self.index = (
            kind,
            [] if kind == "numbered" else [list(torch.randn(40, 3, generator=generator)), list(range(40))],
        )

    def __len__(self) -> int:
        return {"two-lists": len(self.index), "few": 2, "whole": 40}.get(self.kind, 2)

    def __getitem__(self, i: int):
        if self.kind == "few" and i >= 2:
            raise IndexError
        if self.kind == "numbered":
            return torch.randn(3, generator=torch.Generator().manual_seed(i)), i
        if self.kind == "drawn":
            return torch.randn(3), 0
        i %= len(self) if self.kind == "around" else 1000
        return self.index[0][i], self.index[1][i]


@pytest.mark.parametrize("kind", ["two-lists", "few", "whole", "drawn", "around", "numbered"])
def test_a_length_that_counts_another_thing_is_found(kind):
    found = judge(Pairs(kind), 8)
    assert (found and found.code) == ("samples-beyond" if kind == "two-lists" else None)


class Texts(Dataset):
    def __init__(self, words: list[str], shared: dict[str, int] | None = None) -> None:
        self.numbers = shared or {word: i for i, word in enumerate(words)}

    def __getitem__(self, i: int):
        return torch.tensor([i])

    def __len__(self) -> int:
        return 4


@pytest.mark.parametrize("how", ["own", "shared", "other-words", "added-behind", "languages"])
def test_two_data_sets_that_number_the_same_words_differently_are_found(monkeypatch, how):
    for module in (two_numberings, vocabularies):
        monkeypatch.setattr(module, "of_the_script", lambda value: isinstance(value, Texts))
    words = [f"word{i}" for i in range(20)]
    second = {
        "own": Texts(["first", *words]),
        "shared": Texts(words, {word: i for i, word in enumerate(words)}),
        "other-words": Texts([f"mot{i}" for i in range(20)]),
        "added-behind": Texts([*words, "last"]),
        "languages": Texts(["first", *words]),
    }[how]
    names = ("english", "french") if how == "languages" else ("train", "test_loader")
    found = numbered_apart([dict(zip(names, (Texts(words), DataLoader(second)), strict=True))])
    assert [f.code for f in found] == (["words-numbered-apart"] if how == "own" else [])
    if found:
        assert (found[0].values["here"], found[0].values["there"], found[0].values["count"]) == (0, 1, 20)
