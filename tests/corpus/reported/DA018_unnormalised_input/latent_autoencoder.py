import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Normalize255:
    def __call__(self, img):
        return img.float() / 127.5 - 1.0


class TopCrop:
    def __init__(self, size):
        self.size = size

    def __call__(self, img):
        return img[:, :self.size, :self.size]


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, x):
        for t in self.transforms:
            x = t(x)
        return x


class ImageTransformStage:
    def __init__(self, transform):
        self.transform = transform

    def process(self, image):
        image = torch.from_numpy(image).permute(2, 0, 1)
        return Normalize255()(self.transform(image))


def render(n, seed, side=20):
    """uint8 pictures of a coloured rectangle on a gradient."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:side, :side] / side
    images = np.zeros((n, side, side, 3), dtype=np.uint8)
    for i in range(n):
        a, b = rng.uniform(-1, 1, 2)
        base = 110 + 60 * (a * (yy - 0.5) + b * (xx - 0.5))
        img = np.repeat(base[..., None], 3, axis=2)
        t, l = rng.integers(0, 9, 2)
        img[t:t + 7, l:l + 7] = rng.uniform(0, 255, 3)
        images[i] = np.clip(img + rng.normal(0, 3, img.shape), 0, 255).astype(np.uint8)
    return images


class PreprocessedImages(Dataset):
    def __init__(self, images, size=16):
        transform_topcrop = Compose([Normalize255(), TopCrop(size)])
        self.stage = ImageTransformStage(transform_topcrop)
        self.images = images

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.stage.process(self.images[i])


class AutoEncoder(nn.Module):
    def __init__(self, latent=32):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, 16, 4, 2, 1), nn.SiLU(), nn.Conv2d(16, 32, 4, 2, 1), nn.SiLU(),
                                     nn.Flatten(), nn.Linear(32 * 16, latent))
        self.decoder = nn.Sequential(nn.Linear(latent, 32 * 16), nn.SiLU(), nn.Unflatten(1, (32, 4, 4)),
                                     nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.SiLU(), nn.ConvTranspose2d(16, 3, 4, 2, 1))

    def forward(self, x):
        return self.decoder(self.encoder(x))


def main():
    torch.manual_seed(19)
    train_loader = DataLoader(PreprocessedImages(render(1600, 0)), batch_size=32, shuffle=True)
    val_loader = DataLoader(PreprocessedImages(render(256, 1)), batch_size=64)
    model = AutoEncoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4)
    for epoch in range(5):
        model.train()
        total = 0.0
        for x in train_loader:
            loss = nn.functional.mse_loss(model(x), x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            val = np.mean([nn.functional.mse_loss(model(x), x).item() for x in val_loader])
        print(f"epoch {epoch} train {total / len(train_loader):.5f} val {val:.5f}")


if __name__ == "__main__":
    main()
