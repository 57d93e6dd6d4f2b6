"""Samples with equal content have equal hashes, others do not."""

import pytest
import torch
from firstfault.recorder.tensors.labels_and_masks import sample_fingerprints
from torch import Tensor

pytestmark = pytest.mark.usefixtures("measuring_way")


def hashes(rows: Tensor) -> list[int]:
    found = sample_fingerprints(rows)
    assert found is not None
    return found


def test_equal_samples_have_equal_hashes_whatever_batch_they_are_in() -> None:
    rows = torch.randn(40, 3, 4)
    assert hashes(rows) == hashes(rows.reshape(40, 12).contiguous())
    assert hashes(rows[7:9]) == hashes(rows)[7:9]


def test_one_element_makes_another_hash() -> None:
    tokens = torch.randint(50, (300, 20))
    assert len(set(hashes(tokens))) == len(torch.unique(tokens, dim=0))
    changed = tokens.clone()
    changed[torch.arange(300), torch.randint(20, (300,))] += 1
    assert not set(hashes(changed)) & set(hashes(tokens)) - {
        h for h, same in zip(hashes(tokens), (changed[:, None] == tokens[None]).all(2).any(0), strict=True) if same
    }


def test_a_sample_and_the_same_with_a_zero_behind_it_are_two() -> None:
    tokens = torch.randint(1, 50, (64, 20))
    longer = torch.cat([tokens, torch.zeros(64, 1, dtype=torch.long)], 1)
    assert not set(hashes(tokens)) & set(hashes(longer))
