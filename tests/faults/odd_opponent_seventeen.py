"""Healthy runs that look odd, after an opponent's, seventeenth round: `python odd_opponent_seventeen.py NAME [SEED]`."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def masks_that_are_the_same_in_every_batch():
    """All recordings have one length and are padded to the same frame; the loader hands the mask out with each batch."""
    kinds = torch.randint(4, (2000,))
    x = torch.randn(4, 24, 6)[kinds] + 0.7 * torch.randn(2000, 24, 6)
    kept = (torch.arange(24) < 20).long().expand(2000, 24).contiguous()
    loader = DataLoader(TensorDataset(x * kept[:, :, None], kept, kinds), 20, shuffle=True)
    net = nn.GRU(6, 32, batch_first=True)
    head = nn.Linear(32, 4)
    opt = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=3e-3)
    for frames, mask, kind in loader:
        states = net(frames)[0] * mask[:, :, None]
        loss = F.cross_entropy(head(states.sum(1) / mask.sum(1, keepdim=True)), kind)
        opt.zero_grad()
        loss.backward()
        opt.step()


def label_maps_with_little_on_them():
    """Segmentation of small spots; many label maps of training and evaluation are equal, no image is."""
    images = 0.3 * torch.randn(400, 1, 16, 16)
    labels = torch.zeros(400, 16, 16, dtype=torch.long)
    for image, label in zip(images, labels, strict=True):
        if torch.rand(()) < 0.8:
            row, column = 4 * torch.randint(4, (2,))
            label[row : row + 4, column : column + 4] = 1
            image[0, row : row + 4, column : column + 4] += 1.5
    train = DataLoader(TensorDataset(images[:320], labels[:320]), 16, shuffle=True)
    held_out = DataLoader(TensorDataset(images[320:], labels[320:]), 16)
    net = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 2, 1)
    )
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    for _ in range(5):
        for image, label in train:
            loss = F.cross_entropy(net(image), label)
            opt.zero_grad()
            loss.backward()
            opt.step()
        net.eval()
        with torch.no_grad():
            right = [(net(image).argmax(1) == label).float().mean() for image, label in held_out]
        net.train()
        print(f"held out: {torch.stack(right).mean():.3f}")


def two_optimizers_of_which_one_gathers():
    """The body's optimizer steps every fourth time, on the sum of four gradients; the head's steps every time."""
    body, head = nn.Sequential(nn.Linear(12, 48), nn.Tanh()), nn.Linear(48, 1)
    weight = torch.randn(12, 1)
    quick, slow = torch.optim.SGD(head.parameters(), 0.02), torch.optim.Adam(body.parameters(), 1e-3)
    for i in range(160):
        x = torch.randn(32, 12)
        loss = F.mse_loss(head(body(x)), (x @ weight).sin())
        quick.zero_grad()
        loss.backward()
        quick.step()
        if i % 4 == 3:
            slow.step()
            slow.zero_grad()


def targets_that_leap_with_their_network():
    """Values are learned from a target network, which takes over the weights every forty steps: the loss leaps each time."""
    value, target = (
        nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)) for _ in range(2)
    )
    target.load_state_dict(value.state_dict())
    opt = torch.optim.Adam(value.parameters(), lr=2e-3)
    turn = torch.linalg.qr(torch.randn(4, 4))[0]
    for i in range(200):
        state = 0.3 * torch.randn(96, 4)
        action = torch.randint(2, (96,))
        after = (state + 0.1 * (2 * action[:, None] - 1)) @ turn
        with torch.no_grad():
            goal = 1.0 + 0.97 * (after[:, 0] < 0.4) * target(after).max(1).values
        loss = F.smooth_l1_loss(value(state).gather(1, action[:, None])[:, 0], goal)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 40 == 39:
            target.load_state_dict(value.state_dict())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    globals()[sys.argv[1]]()
