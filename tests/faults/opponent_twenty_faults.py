"""Training scripts after an opponent's, twentieth round: pairs that no longer belong together, padding that counts, bounds and
schedules that are set wrongly.

    python opponent_twenty_faults.py NAME [ONSET] [SEED]

With an onset beyond the last step each script is healthy.
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def regression_with_the_targets_of_others(s):
    """From s on the targets of a batch are drawn apart from its inputs."""
    net = nn.Sequential(nn.Linear(12, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 1))
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    turn = torch.randn(12) / 4
    for i in range(220):
        x = torch.randn(64, 12)
        y = (1.4 * torch.sin(x @ turn) + 0.1 * torch.randn(64))[:, None]
        if i >= s:
            y = y[torch.randperm(64)]
        loss = F.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def masks_of_other_pictures(s):
    """Segmentation; from s on the pictures are turned by a quarter and their masks are not."""
    net = nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2),
        nn.GroupNorm(4, 16),
        nn.SiLU(),
        nn.Conv2d(16, 16, 5, padding=2),
        nn.SiLU(),
        nn.Conv2d(16, 4, 1),
    )
    opt = torch.optim.AdamW(net.parameters(), lr=4e-3)
    for i in range(160):
        x, y = 0.3 * torch.randn(8, 1, 20, 20), torch.zeros(8, 20, 20, dtype=torch.long)
        for n in range(8):
            for kind in range(1, 4):
                r, c = torch.randint(0, 13, (2,)).tolist()
                x[n, 0, r : r + 7, c : c + 7] = kind + 0.3 * torch.randn(7, 7)
                y[n, r : r + 7, c : c + 7] = kind
        if i >= s:
            x = torch.rot90(x, 1, (2, 3))
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


class Reverser(nn.Module):
    """Says sequences backwards."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(30, 48, padding_idx=0)
        self.places = nn.Embedding(24, 48)
        layer = nn.TransformerEncoderLayer(48, 4, 96, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(48, 30)

    def forward(self, tokens, mask):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        return self.head(self.body(x, src_key_padding_mask=mask == 0))


def _reversing(s, *, counted, masked):
    net = Reverser()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for i in range(160):
        rows = [torch.randint(3, 30, (int(torch.randint(3, 22, ())),)) for _ in range(24)]
        tokens = nn.utils.rnn.pad_sequence(rows, batch_first=True)
        targets = nn.utils.rnn.pad_sequence([row.flip(0) for row in rows], batch_first=True)
        mask = torch.ones_like(tokens) if masked and i >= s else (tokens != 0).long()
        scores = net(tokens, mask)
        loss = F.cross_entropy(scores.flatten(0, 1), targets.flatten(), ignore_index=-100 if counted and i >= s else 0)
        opt.zero_grad()
        loss.backward()
        opt.step()


def padding_in_the_loss(s):
    """From s on nobody tells the loss which targets are padding."""
    _reversing(s, counted=True, masked=False)


def mask_of_ones(s):
    """From s on the collate function makes its mask before it pads."""
    _reversing(s, counted=False, masked=True)


def weights_shrunk_by_hand(s):
    """A decay of five percent a step after each step of the optimizer."""
    net = nn.Sequential(nn.Linear(20, 96), nn.ReLU(), nn.Linear(96, 48), nn.ReLU(), nn.Linear(48, 6))
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    turn = torch.randn(20, 6)
    for i in range(160):
        x = torch.randn(64, 20)
        loss = F.cross_entropy(net(x), (x @ turn).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i >= s:
            with torch.no_grad():
                for p in net.parameters():
                    p.mul_(0.95)


def plateau_of_a_loss_in_mode_max(s):
    """A scheduler on the validation loss that waits for it to rise, from epoch s // 20 on."""
    net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 6))
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, mode="max" if s < 200 else "min", patience=1)
    turn = torch.randn(20, 6)
    held = torch.randn(256, 20)
    for i in range(240):
        x = torch.randn(64, 20)
        loss = F.cross_entropy(net(x), (x @ turn).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 20 == 19:
            net.eval()
            with torch.no_grad():
                plateau.step(F.cross_entropy(net(held), (held @ turn).argmax(1)))
            net.train()


def clip_by_value_at_next_to_nothing(s):
    """From s on every element of the gradient is cut to a hundred-thousandth."""
    net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 6))
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    turn = torch.randn(20, 6)
    for i in range(140):
        x = torch.randn(64, 20)
        loss = F.cross_entropy(net(x), (x @ turn).argmax(1))
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(net.parameters(), 1e-5 if i >= s else 1.0)
        opt.step()


def rewards_of_a_group_that_are_equal(s):
    """Advantages are standardised within groups of eight; at s all rewards of one group are the same."""
    net = nn.Sequential(nn.Linear(12, 48), nn.Tanh(), nn.Linear(48, 5))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    turn = torch.randn(12, 5)
    for i in range(140):
        x = torch.randn(8, 12).repeat_interleave(8, 0)
        policy = torch.distributions.Categorical(logits=net(x))
        action = policy.sample()
        reward = (x @ turn).gather(1, action[:, None])[:, 0] + 0.3 * torch.rand(64)
        if i == s:
            reward[:8] = 0.0
        groups = reward.view(8, 8)
        advantage = ((groups - groups.mean(1, keepdim=True)) / groups.std(1, keepdim=True)).view(-1)
        loss = -(policy.log_prob(action) * advantage).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i == s:
            break


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 60)
