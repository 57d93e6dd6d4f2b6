import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)

# Per-channel mean and SD of the training images
_MEAN = [0.47, 0.45, 0.42]
_SD = [0.27, 0.26, 0.28]


def generate(n, seed, size=16):
    """Four kinds of object on a coloured background, float images in [0, 1] as (N, C, H, W)."""
    rng = np.random.RandomState(seed)
    labels = rng.randint(0, 4, n)
    yy, xx = np.mgrid[0:size, 0:size]
    images = np.empty((n, 3, size, size), dtype=np.float32)
    for i, y in enumerate(labels):
        bg, fg = rng.uniform(0.2, 0.5, 3), rng.uniform(0.6, 0.9, 3)
        if rng.rand() < 0.5:
            bg, fg = fg, bg
        cy, cx, r = rng.uniform(6, 10), rng.uniform(6, 10), rng.uniform(3.5, 5)
        dy, dx = np.abs(yy - cy), np.abs(xx - cx)
        mask = [dy ** 2 + dx ** 2 < r ** 2, np.maximum(dy, dx) < r * 0.85, dy + dx < r * 1.1,
                (np.minimum(dy, dx) < 1.3) & (np.maximum(dy, dx) < r * 1.2)][y]
        images[i] = np.where(mask, fg[:, None, None], bg[:, None, None])
    images += rng.normal(0, 0.08, images.shape)
    return images.clip(0, 1).astype(np.float32), labels.astype(np.int64)


def color_norm(im, mean, std):
    """Performs per-channel normalization (CHW format)."""
    for i in range(im.shape[0]):
        im[i] -= mean[i]
        im[i] /= std[i]
    return im


def horizontal_flip(im, p):
    if np.random.uniform() < p:
        im = im[:, :, ::-1]
    return im


def random_crop(im, size, pad):
    im = np.pad(im, ((0, 0), (pad, pad), (pad, pad)), mode="constant")
    y, x = np.random.randint(0, 2 * pad + 1, 2)
    return im[:, y:y + size, x:x + size]


class Cifar(Dataset):
    def __init__(self, split, n, seed):
        self._split = split
        self._inputs, self._labels = generate(n, seed)

    def _transform_image(self, im):
        im = color_norm(im, _MEAN, _SD)
        if self._split == "train":
            im = horizontal_flip(im=im, p=0.5)
            im = random_crop(im=im, size=16, pad=2)
        return im

    def __getitem__(self, index):
        im, label = self._inputs[index, ...].copy(), self._labels[index]
        im = self._transform_image(im)
        return np.ascontiguousarray(im), label

    def __len__(self):
        return len(self._inputs)


class AnyNet(nn.Module):
    def __init__(self, w=12):
        super().__init__()

        def cbr(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2))

        self.stages = nn.Sequential(cbr(3, w), cbr(w, 2 * w), cbr(2 * w, 3 * w))
        self.head = nn.Linear(3 * w * 4, 4)

    def forward(self, x):
        return self.head(self.stages(x).flatten(1))


def train_epoch(loader, model, loss_fun, optimizer):
    model.train()
    total = 0.0
    for inputs, labels in loader:
        loss = loss_fun(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


@torch.no_grad()
def test_epoch(loader, model):
    model.eval()
    wrong = sum((model(x).argmax(1) != y).sum().item() for x, y in loader)
    return 100.0 * wrong / len(loader.dataset)


def main():
    np.random.seed(1)
    torch.manual_seed(1)
    train_loader = DataLoader(Cifar("train", 640, 0), batch_size=32, shuffle=True, drop_last=True)
    test_loader = DataLoader(Cifar("test", 128, 1), batch_size=64)
    model, loss_fun = AnyNet(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.04, momentum=0.9, weight_decay=5e-4)
    for epoch in range(10):
        loss = train_epoch(train_loader, model, loss_fun, optimizer)
        print(f"epoch {epoch + 1}/10 loss {loss:.4f} top1_err {test_epoch(test_loader, model):.2f}")


if __name__ == "__main__":
    main()
