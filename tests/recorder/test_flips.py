"""Images and targets that are mirrored together, apart, or only one of them."""

import numpy as np
import pytest
import torch
from firstfault.recorder.probes.flips import judge
from torch.utils.data import Dataset

WIDTH = 16


class Boxes(Dataset):
    """Bright boxes; the target is their centre and size, their corners, or a mask."""

    def __init__(self, how: str, target: str) -> None:
        rng = np.random.default_rng(0)
        self.how, self.target = how, target
        self.corners = [(x, y, x + 5, y + 4) for x, y in rng.integers(0, 10, (12, 2)).tolist()]

    def __len__(self) -> int:
        return len(self.corners)

    def __getitem__(self, i: int):
        x1, y1, x2, y2 = self.corners[i]
        image = np.zeros((1, WIDTH, WIDTH), np.float32)
        image[:, y1:y2, x1:x2] = 1.0
        mask = image[0].astype(np.int64)
        one, other = np.random.rand() < 0.5, np.random.rand() < 0.5
        if self.how == "together":
            other = one
        if one and self.how not in {"target-alone", "none"}:
            image = image[:, :, ::-1].copy()
        if other and self.how not in {"image-alone", "none"}:
            mask = mask[:, ::-1].copy()
            x1, x2 = WIDTH - x2, WIDTH - x1
        image += 0.05 * np.random.randn(*image.shape).astype(np.float32)
        targets = {
            "mask": mask,
            "corners": np.array([[x1, y1, x2, y2]], np.float32),
            "centre": np.array([(x1 + x2) / 2 / WIDTH, (y1 + y2) / 2 / WIDTH, 0.3, 0.25], np.float32),
            "view": image[:, :, ::-1].copy() if other else image.copy(),
            "class": np.int64(i % 3),
            "drawn-class": np.eye(5, dtype=np.float32)[np.random.randint(5)] * 0.8 + 0.04,
        }
        return torch.from_numpy(image), torch.as_tensor(targets[self.target])


@pytest.mark.parametrize("target", ["mask", "corners", "centre"])
@pytest.mark.parametrize(
    ("how", "code"),
    [("apart", "flipped-apart"), ("target-alone", "flipped-apart"), ("together", "flipped-together"), ("none", None)],
)
def test_what_is_mirrored_by_another_draw_than_its_image_is_found(how, target, code):
    found = judge(Boxes(how, target))
    assert (found and found.code) == code
    if found is not None and found.code == "flipped-apart":
        assert found.outcome == "doubtful"
        assert found.values["side"] == "left-right"
        assert found.values["alone"] == (how == "target-alone")


@pytest.mark.parametrize("target", ["class", "view", "drawn-class"])
def test_classes_and_other_views_do_not_follow_the_image(target):
    assert judge(Boxes("apart", target)) is None


def test_numbers_that_chance_changes_are_no_coordinates():
    class Noisy(Boxes):
        def __getitem__(self, i):
            image, target = super().__getitem__(i)
            target[2] += 0.1 * np.random.randn()
            return image, target

    assert judge(Noisy("none", "centre")) is None


def test_of_an_image_that_is_its_own_mirror_image_nothing_is_said():
    class Symmetric(Boxes):
        def __getitem__(self, i):
            image, target = super().__getitem__(i)
            return image + image.flip(-1), target

    assert judge(Symmetric("together", "corners")) is None
