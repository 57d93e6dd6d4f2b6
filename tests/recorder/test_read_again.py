"""A sample that is read again: what its data set keeps must not change by it, and what it draws by chance is no change."""

import random

import numpy as np
import pytest
import torch
from firstfault.recorder.probes.read_again import judge
from torch.utils.data import Dataset, Subset, TensorDataset

MEANS = np.array([120.0, 115.0, 103.0], np.float32)


class Images(Dataset):
    def __init__(self):
        generator = np.random.default_rng(0)
        self.images = [generator.normal(120, 40, (3, 8, 8)).astype(np.float32) for _ in range(12)]
        self.means = MEANS.copy()

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return torch.from_numpy(self.images[i] / 255 - self.means[:, None, None] / 255), i % 3


class MeansDivided(Images):
    def __getitem__(self, i):
        self.means /= 255
        return torch.from_numpy(self.images[i] / 255 - self.means[:, None, None])


class ImagesDivided(Images):
    def __getitem__(self, i):
        image = self.images[i]
        image -= self.means[:, None, None]
        return {"image": image}


class Flipped(Images):
    def __getitem__(self, i):
        image = self.images[i][:, :, :: -1 if random.random() < 0.5 else 1]
        return torch.from_numpy(image * np.random.rand() + float(torch.rand(())))


class OwnGenerator(Images):
    def __init__(self):
        super().__init__()
        self.generator = np.random.default_rng(1)

    def __getitem__(self, i):
        return self.images[i] + self.generator.normal(size=(3, 8, 8))


class FreshGenerator(Images):
    def __getitem__(self, i):
        return self.images[i] + np.random.default_rng().normal(size=(3, 8, 8))


class Cache(Images):
    def __init__(self):
        super().__init__()
        self.cache, self.reads = {}, 0

    def __getitem__(self, i):
        self.reads += 1
        return self.cache.setdefault(i, self.images[i] / 255)


class ScaledOnce(Images):
    def __init__(self):
        super().__init__()
        self.done = set()

    def __getitem__(self, i):
        if i not in self.done:
            self.images[i] /= 255
            self.done.add(i)
        return self.images[i]


class OneBuffer(Images):
    def __init__(self):
        super().__init__()
        self.buffer = np.zeros((3, 8, 8), np.float32)

    def __getitem__(self, i):
        np.divide(self.images[i], 255, out=self.buffer)
        return self.buffer


class RunningMean(Images):
    def __init__(self):
        super().__init__()
        self.seen = 1

    def __getitem__(self, i):
        self.seen += 1
        self.means += (self.images[i].mean((1, 2)) - self.means) / self.seen
        return self.images[i] - self.means[:, None, None]


class MixedWithTheLast(OneBuffer):
    def __getitem__(self, i):
        mixed = (self.images[i] + self.buffer) / 2
        self.buffer[:] = self.images[i]
        return mixed


class NoiseShuffled(Images):
    def __init__(self):
        super().__init__()
        self.noise = np.linspace(0, 1, 50, dtype=np.float32)

    def __getitem__(self, i):
        np.random.shuffle(self.noise)
        return self.images[i] + self.noise[0]


class Writes(Images):
    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def __getitem__(self, i):
        (self.folder / "cached").write_text(str(i))
        return self.images[i]


@pytest.mark.parametrize(("kind", "path"), [(MeansDivided, "dataset.means"), (ImagesDivided, "dataset.images[0]")])
def test_a_data_set_that_is_changed_by_reading_is_doubted_and_stays_as_it_was(kind, path):
    dataset = kind()
    before, state = [dataset.means.copy(), dataset.images[0].copy()], torch.get_rng_state()
    found = judge(dataset)
    assert (found.outcome, found.code, found.values["path"]) == ("doubtful", "sample-changed", path)
    assert np.array_equal(before[0], dataset.means)
    assert np.array_equal(before[1], dataset.images[0])
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("kind", [Images, Flipped, Cache, ScaledOnce, OneBuffer])
def test_what_gives_the_same_values_again_passes(kind):
    assert judge(kind()).code == "sample-same"


@pytest.mark.parametrize("kind", [OwnGenerator, FreshGenerator, RunningMean, MixedWithTheLast, NoiseShuffled])
def test_what_differs_by_chance_or_on_purpose_says_nothing(kind):
    assert judge(kind()).code == "sample-by-chance"


def test_nothing_is_written_and_an_open_file_is_not_read_in_a_copy(tmp_path):
    found = judge(Writes(tmp_path))
    assert (found.outcome, found.code) == ("untried", "reading-failed")
    assert not list(tmp_path.iterdir())
    dataset = Images()
    dataset.file = (tmp_path / "data").open("wb")
    assert judge(dataset).values["error"] == "the data set holds an open file"
    dataset.file.close()


def test_torchs_own_data_sets_are_not_read():
    assert judge(Subset(TensorDataset(torch.rand(4, 2)), [0, 1])) is None
