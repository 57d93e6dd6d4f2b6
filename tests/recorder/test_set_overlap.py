"""Samples of an evaluation that are trained on too."""

import sys

import pytest
import torch
from firstfault.recorder.probes.set_overlap import judge, says_evaluation
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, SubsetRandomSampler, TensorDataset


def numbers(n, seed=0):
    return torch.randn(n, 6, generator=torch.Generator().manual_seed(seed))


class Noisy(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i] + torch.rand(6)


def judged(train, **variables):
    """As a script's function sees it: the variables by their names, one level below ``variables``."""
    return judge(iter(train), [], sys._getframe())


def test_positions_within_the_rest_are_found_in_the_training_by_their_numbers():
    data = TensorDataset(numbers(300))
    train, rest = Subset(data, range(200)), Subset(data, range(200, 300))
    wrong, right = Subset(data, range(50)), Subset(rest, range(50))
    found = judged(DataLoader(train, 8), val_loader=DataLoader(right), test_loader=DataLoader(wrong))
    assert (found.outcome, found.code) == ("doubtful", "positions-in-both")
    assert found.values == {"name": "variables['test_loader']", "shared": 50, "looked": 50}
    assert judged(DataLoader(train, 8), val_loader=DataLoader(right)).code == "positions-apart"
    sampled = DataLoader(data, 8, sampler=SubsetRandomSampler(range(100)))
    apart = DataLoader(data, sampler=SubsetRandomSampler(range(100, 300)))
    assert judged(sampled, val=apart).code == "positions-apart"
    assert judged(apart, val=DataLoader(data, sampler=SubsetRandomSampler(range(90, 120)))).outcome == "doubtful"


def test_the_same_samples_in_another_data_set_are_found_by_reading():
    rows, labels = numbers(600), torch.arange(600) % 3
    train = DataLoader(TensorDataset(rows[:500], labels[:500]), 8, shuffle=True)
    mixed = DataLoader(TensorDataset(rows[450:].clone(), labels[450:]), 8)
    found = judged(train, valid=mixed)
    assert (found.code, found.values["shared"], found.values["looked"]) == ("samples-in-both", 50, 150)
    assert judged(train, valid=DataLoader(TensorDataset(rows[500:], labels[500:]))).code == "samples-apart"


def test_what_is_no_evaluation_or_meant_to_be_the_same_is_not_compared():
    rows = numbers(300)
    data, other = TensorDataset(rows[:200]), TensorDataset(rows[200:])
    part = DataLoader(Subset(data, range(100)))
    assert judged(DataLoader(data), train_eval_loader=part, memory_loader=part, calibration=part) is None
    assert judged(DataLoader(data), val_loader=DataLoader(data)) is None
    assert judged(DataLoader(ConcatDataset([data, other])), val_loader=DataLoader(other)) is None
    folds = [DataLoader(Subset(data, range(100)))]
    assert judged(DataLoader(data), val_loaders=folds) is None


def test_a_loader_that_reads_the_training_set_beside_an_unread_one_is_doubted():
    rows = numbers(300)
    data, other = TensorDataset(rows[:200]), TensorDataset(rows[200:])
    found = judged(DataLoader(data), val_loader=DataLoader(data), val_dataset=other)
    assert (found.outcome, found.code, found.values["shared"]) == ("doubtful", "positions-in-both", 200)
    read = judged(DataLoader(data), val_loader=DataLoader(data), test_loader=DataLoader(other), test_set=other)
    assert read.outcome == "passed"


def test_augmented_and_repeating_data_say_nothing():
    rows = numbers(300)
    noisy = judged(DataLoader(Noisy(rows), 8), val=DataLoader(TensorDataset(rows.clone()), 8))
    assert (noisy.outcome, noisy.code) == ("untried", "samples-vary")
    bits = torch.randint(2, (400, 8)).float()
    few = judged(DataLoader(TensorDataset(bits[:300])), val=DataLoader(TensorDataset(bits[300:])))
    assert few.code == "samples-few-values"
    repeating = rows[torch.randint(40, (400,))]
    assert judged(DataLoader(TensorDataset(repeating[:300])), val=DataLoader(TensorDataset(repeating[300:]))).code == (
        "samples-apart"
    )


@pytest.mark.parametrize(("rest", "code"), [(False, "samples-in-both"), (True, "samples-apart")])
def test_arrays_of_a_script_without_a_loader_are_compared_by_rows(rest, code):
    rows = numbers(300)
    train_x, valid_x = rows[:200], rows[200:].numpy() if rest else rows[120:240].double().numpy()
    assert len(train_x) + len(valid_x) > 300 - 1
    found = judge(None, [train_x[:16].clone()], sys._getframe())
    assert (found.code, found.values["name"]) == (code, "valid_x")


def test_rows_that_are_left_out_as_batches_are_drawn_are_not_compared():
    train_x = numbers(300)
    valid_x = train_x[200:]
    assert judge(None, [train_x[:16].clone()], sys._getframe()) is None
    assert len(valid_x) == 100


def test_names_of_evaluations():
    for name in ("val_loader", "self.testLoader", "loaders['dev']", "X_test", "validset", "eval_dl"):
        assert says_evaluation(name), name
    for name in ("train_loader", "train_val_loader", "device", "values", "memory_loader", "latest", "x"):
        assert not says_evaluation(name), name
