"""Training scripts after an opponent's, nineteenth round: what begins to be lost in mid-run, in the batch and in the weights.

    python opponent_nineteen_faults.py NAME [ONSET] [SEED]

With an onset beyond the last step each script is healthy.
"""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


def rate_below_what_bfloat16_can_add(s):
    """Weights in bfloat16; from s on the rate is a hundredth, and nearly no weight changes any more."""
    net = nn.Sequential(nn.Linear(24, 96), nn.Tanh(), nn.Linear(96, 96), nn.Tanh(), nn.Linear(96, 4)).bfloat16()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    turn = torch.randn(24, 4) / 5
    for i in range(200):
        if i == s:
            opt.param_groups[0]["lr"] = 1e-5
        x = torch.randn(96, 24)
        loss = F.mse_loss(net(x.bfloat16()).float(), torch.sin(x @ turn))
        opt.zero_grad()
        loss.backward()
        opt.step()


class Sentences(Dataset):
    """Tokens of four kinds; the label is the kind that is most common."""

    def __init__(self, count):
        self.tokens, self.labels = [], []
        for _ in range(count):
            kinds = torch.multinomial(torch.rand(4) ** 2 + 0.05, int(torch.randint(5, 24, ())), replacement=True)
            self.tokens.append(2 + 6 * kinds + torch.randint(6, kinds.shape))
            self.labels.append(int(torch.bincount(kinds, minlength=4).argmax()))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.tokens[index], self.labels[index]


class Reader(nn.Module):
    """One attention over the tokens that a mask leaves, written by hand."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(26, 32)
        self.query, self.key, self.value = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 32)
        self.head = nn.Linear(32, 4)

    def forward(self, tokens, mask):
        x = self.embed(tokens)
        weights = self.query(x) @ self.key(x).transpose(1, 2) / math.sqrt(32)
        x = x + weights.masked_fill(mask[:, None] == 0, -1e4).softmax(-1) @ self.value(x)
        return self.head((x * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True))


def padded_at_the_left_under_a_mask_for_the_right(s):
    """Batches are padded to their longest sentence, from s on at the left; the mask goes on counting from the left."""
    net = Reader()
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    left = False

    def collate(samples):
        width = max(len(tokens) for tokens, _ in samples)
        tokens = torch.zeros(len(samples), width, dtype=torch.long)
        for row, (sentence, _) in zip(tokens, samples, strict=True):
            row[width - len(sentence) :] = sentence if left else 0
            if not left:
                row[: len(sentence)] = sentence
        lengths = torch.tensor([len(sentence) for sentence, _ in samples])
        return tokens, (torch.arange(width) < lengths[:, None]).long(), torch.tensor([label for _, label in samples])

    i = 0
    sentences = Sentences(1600)
    while i < 160:
        for tokens, mask, labels in DataLoader(sentences, 32, shuffle=True, collate_fn=collate):
            left = i + 1 >= s
            loss = F.cross_entropy(net(tokens, mask), labels)
            opt.zero_grad()
            loss.backward()
            opt.step()
            i += 1
            if i == 160:
                break


def standardised_again_at_each_evaluation(s):
    """The held-out part is standardised in place, once at first; from s on again at each evaluation."""
    columns = torch.tensor([12.0, 14.0, 5.0, 450.0, 62.0]), torch.tensor([7.0, 7.0, 3.5, 260.0, 19.0])
    raw = columns[0] + columns[1] * torch.randn(5000, 5)
    y = torch.sin(raw[:, 0] / 4) + 0.1 * raw[:, 1] - 0.002 * raw[:, 3]
    x = (raw - columns[0]) / columns[1]
    held, held_y = x[4000:].clone(), y[4000:]
    net = nn.Sequential(nn.Linear(5, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1))
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for i in range(240):
        if i % 30 == 0 and i > 0:
            if i >= s:
                held -= columns[0]
                held /= columns[1]
            with torch.no_grad():
                valid_loss = F.mse_loss(net(held)[:, 0], held_y).item()
            del valid_loss
        rows = torch.randint(4000, (128,))
        loss = F.mse_loss(net(x[rows])[:, 0], y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()


def normalised_twice_by_a_stronger_recipe(s):
    """From s on the training samples go through a recipe that normalises what is normalised; the evaluation does not."""
    patterns = torch.rand(4, 1, 12, 12)
    labels = torch.randint(4, (1280,))
    images = (patterns[labels] + 0.15 * torch.randn(1280, 1, 12, 12)).clamp(0, 1)
    normal = (images - 0.5) / 0.3
    net = nn.Sequential(
        nn.Conv2d(1, 12, 3, 2, 1), nn.ReLU(), nn.Conv2d(12, 24, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(216, 4)
    )
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for i in range(160):
        if i % 20 == 19:
            net.eval()
            with torch.no_grad():
                print(i, F.cross_entropy(net(normal[1024:]), labels[1024:]).item())
            net.train()
        rows = torch.randint(1024, (64,))
        x = normal[rows]
        if i >= s:
            x = (x.roll(int(torch.randint(-1, 2, ())), -1) - 0.5) / 0.3
        loss = F.cross_entropy(net(x), labels[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()


def clip_list_made_before_the_body_was_freed(s):
    """The body is frozen for 60 steps; the list of what is clipped is made anew when it is freed, or not, where s is the 60th."""
    body = nn.Sequential(nn.Linear(16, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU()).requires_grad_(False)
    head = nn.Linear(96, 5)
    opt = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.05, momentum=0.9)
    clipped = [p for p in [*body.parameters(), *head.parameters()] if p.requires_grad]
    centres = torch.randn(5, 16)
    for i in range(160):
        if i == 60:
            body.requires_grad_(True)
            if i < s:
                clipped = [*body.parameters(), *head.parameters()]
        y = torch.randint(5, (32,))
        loss = 4 * F.cross_entropy(head(body(centres[y] + 1.5 * torch.randn(32, 16))), y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(clipped, 1.0)
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 0)
