"""Training scripts of an opponent, fifth round: faults of the model, its loss and its numbers.

    python opponent_fifth_number_faults.py NAME [ONSET] [SEED]

As in opponent_fifth_faults.py: with an onset beyond the last step each script is healthy.
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def moons(n=900, noise=0.15):
    t = torch.rand(n) * torch.pi
    y = torch.arange(n) % 2
    x = torch.stack([t.cos() + y * 1.0, t.sin() * (1 - 2 * y) + 0.5 * y], 1)
    return x + noise * torch.randn(n, 2), y


def patterns(n=800, classes=5, width=20):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] + 0.8 * torch.randn(n, width), y


def loader(*tensors, size=32):
    data = DataLoader(TensorDataset(*tensors), size, shuffle=True, drop_last=True)
    while True:
        yield from data


def learn(model, opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


class TransformerClassifier(nn.Module):
    def __init__(self, words=40, width=32, classes=4, softmax=False):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.pos = nn.Embedding(16, width)
        self.attn = nn.MultiheadAttention(width, 4, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))
        self.head = nn.Linear(width, classes)
        self.softmax = softmax

    def forward(self, ids, mask=None):
        h = self.embed(ids) + self.pos(torch.arange(ids.shape[1]))
        a = self.norm1(h)
        h = h + self.attn(a, a, a, key_padding_mask=mask, need_weights=False)[0]
        h = h + self.mlp(self.norm2(h))
        out = self.head(h.mean(1))
        return out.softmax(-1) if self.softmax else out


def words(n=700, classes=4):
    ids = torch.randint(4, 40, (n, 12))
    y = torch.randint(classes, (n,))
    ids[torch.arange(n), torch.randint(12, (n,))] = y
    return ids, y


def softmax_in_forward(s):
    """A transformer's forward ends in softmax and is trained with cross_entropy."""
    model = TransformerClassifier(softmax=s == 0)
    opt = optim.AdamW(model.parameters(), lr=2e-3)
    for _, (a, b) in zip(range(110), loader(*words()), strict=False):
        learn(model, opt, F.cross_entropy(model(a), b))


def probabilities_into_logits_loss(s):
    """A sigmoid in front of binary_cross_entropy_with_logits."""
    x, y = moons()
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
    opt = optim.Adam(model.parameters(), lr=1e-2)
    for _, (a, b) in zip(range(150), loader(x, y.float()), strict=False):
        out = model(a).squeeze(1)
        out = out.sigmoid() if s == 0 else out
        learn(model, opt, F.binary_cross_entropy_with_logits(out, b))


class QNet(nn.Module):
    def __init__(self, states=4, actions=3):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(states, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU())
        self.value = nn.Linear(48, 1)
        self.advantage = nn.Linear(48, actions)

    def forward(self, x):
        h = self.body(x)
        a = self.advantage(h)
        return self.value(h) + a - a.mean(1, keepdim=True)


def q_values_of_shape_n_by_one(s):
    """DQN: gather() leaves a column, the target is a row."""
    net, target = QNet(), QNet()
    target.load_state_dict(net.state_dict())
    opt = optim.Adam(net.parameters(), lr=1e-3)
    world = torch.randn(4, 3)
    for step in range(120):
        state = torch.randn(32, 4)
        action = net(state).argmax(1) if torch.rand(()) > 0.3 else torch.randint(3, (32,))
        reward = (state @ world).gather(1, action[:, None]).squeeze(1)
        following = state * 0.9 + 0.1 * torch.randn(32, 4)
        with torch.no_grad():
            y = reward + 0.8 * target(following).max(1).values
        q = net(state).gather(1, action[:, None])
        q = q if s == 0 else q.squeeze(1)
        learn(net, opt, F.mse_loss(q, y))
        if step % 20 == 19:
            target.load_state_dict(net.state_dict())


def encoder_detached(s):
    """A sequence-to-sequence model hands the decoder a detached state."""

    class Translator(nn.Module):
        def __init__(self):
            super().__init__()
            self.source, self.target = nn.Embedding(20, 32), nn.Embedding(20, 32)
            self.encoder = nn.GRU(32, 32, batch_first=True)
            self.decoder = nn.GRU(32, 32, batch_first=True)
            self.out = nn.Linear(32, 20)

        def forward(self, src, dst, cut):
            _, h = self.encoder(self.source(src))
            if cut:
                h = h.detach()
            return self.out(self.decoder(self.target(dst), h)[0])

    model = Translator()
    opt = optim.Adam(model.parameters(), lr=3e-3)
    for step in range(100):
        src = torch.randint(1, 20, (32, 6))
        dst = src.flip(1)
        start = torch.cat([torch.zeros(32, 1, dtype=torch.long), dst[:, :-1]], 1)
        out = model(src, start, step >= s)
        learn(model, opt, F.cross_entropy(out.flatten(0, 1), dst.flatten()))


class GraphNet(nn.Module):
    """Two rounds of messages over a normalised adjacency."""

    def __init__(self, width=12, hidden=24, classes=3):
        super().__init__()
        self.convs = nn.ModuleList([nn.Linear(width, hidden), nn.Linear(hidden, hidden)])
        self.readout = nn.Linear(hidden, classes)

    def forward(self, x, adj):
        for conv in self.convs:
            x = F.relu(adj @ conv(x))
        return self.readout(x)


def only_the_readout_is_optimised(s):
    """The optimizer of a graph network was given the parameters of the readout."""
    n = 90
    y = torch.arange(n) % 3
    x = torch.randn(3, 12)[y] + torch.randn(n, 12)
    adj = ((torch.rand(n, n) < 0.02) | ((y[:, None] == y) & (torch.rand(n, n) < 0.1))).float()
    adj = (adj + adj.T + torch.eye(n)).clamp(max=1)
    adj = adj / adj.sum(1, keepdim=True)
    model = GraphNet()
    opt = optim.Adam(model.readout.parameters() if s == 0 else model.parameters(), lr=1e-2)
    train = torch.rand(n) < 0.6
    for _ in range(80):
        learn(model, opt, F.cross_entropy(model(x, adj)[train], y[train]))


def head_swapped_for_new_classes(s):
    """The head is exchanged when classes are added; the optimizer holds the old one."""
    x, y = patterns()
    model = nn.Sequential()
    model.add_module("features", nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.Linear(48, 32), nn.ReLU()))
    model.add_module("head", nn.Linear(32, 5))
    opt = optim.AdamW(model.parameters(), lr=3e-3)
    for step, (a, b) in zip(range(130), loader(x, y), strict=False):
        if step == s:
            model.head = nn.Linear(32, 7)
        learn(model, opt, F.cross_entropy(model(a), b))


def backbone_frozen_and_given_to_adam(s):
    """A flag for debugging freezes the features, which the optimizer holds and which are meant to learn."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(nn.Conv1d(1, 16, 5, padding=2), nn.ReLU(), nn.Conv1d(16, 16, 5, padding=2))
            self.head = nn.Linear(16, 5)

        def forward(self, x):
            return self.head(F.relu(self.features(x[:, None])).mean(2))

    model = Net()
    if s == 0:
        for p in model.features.parameters():
            p.requires_grad = False
    opt = optim.Adam(model.parameters(), lr=3e-3)
    for _, (a, b) in zip(range(80), loader(*patterns()), strict=False):
        learn(model, opt, F.cross_entropy(model(a), b))


def layers_kept_in_a_list(s):
    """Blocks are kept in a Python list instead of a ModuleList."""

    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(20, 32)
            blocks = [nn.Sequential(nn.Linear(32, 32), nn.LayerNorm(32), nn.ReLU()) for _ in range(3)]
            self.blocks = blocks if s == 0 else nn.ModuleList(blocks)
            self.last = nn.Linear(32, 5)

        def forward(self, x):
            x = self.first(x)
            for block in self.blocks:
                x = x + block(x)
            return self.last(x)

    model = Deep()
    opt = optim.Adam(model.parameters(), lr=2e-3)
    for _, (a, b) in zip(range(70), loader(*patterns()), strict=False):
        learn(model, opt, F.cross_entropy(model(a), b))


def biases_of_minus_five(s):
    """Biases of a convolution start so far below zero that its ReLU never opens."""
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(12, 16, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(1024, 4),
    )
    if s == 0:
        nn.init.constant_(model[2].bias, -5.0)
    x = torch.rand(600, 1, 8, 8)
    y = (x[:, 0, :4, :4].mean((1, 2)) > 0.5).long() * 2 + (x[:, 0, 4:, 4:].mean((1, 2)) > 0.5).long()
    opt = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _, (a, b) in zip(range(60), loader(x, y), strict=False):
        learn(model, opt, F.cross_entropy(model(a), b))


def twelve_sigmoids(s):
    """A deep perceptron of sigmoids, without a residual or a norm."""
    layers = [nn.Linear(20, 24), nn.Sigmoid()]
    for _ in range(11):
        layers += [nn.Linear(24, 24), nn.Sigmoid()]
    if s != 0:
        layers = [nn.Linear(20, 24), nn.Sigmoid()]
    model = nn.Sequential(*layers, nn.Linear(24, 5))
    opt = optim.Adam(model.parameters(), lr=2e-3)
    for _, (a, b) in zip(range(80), loader(*patterns()), strict=False):
        learn(model, opt, F.cross_entropy(model(a), b))


def longer_sequences_explode(s):
    """A curriculum makes the sequences of a plain recurrent net longer, whose recurrence is a little too strong."""

    class Cell(nn.Module):
        def __init__(self, width=24):
            super().__init__()
            self.inp, self.rec, self.out = nn.Linear(1, width), nn.Linear(width, width), nn.Linear(width, 1)
            nn.init.orthogonal_(self.rec.weight, 1.4)

        def forward(self, x):
            h = x.new_zeros(len(x), self.rec.in_features)
            for t in range(x.shape[1]):
                h = self.inp(x[:, t]) + F.leaky_relu(self.rec(h), 0.8)
            return self.out(h)

    model = Cell()
    opt = optim.SGD(model.parameters(), lr=1e-4)
    for step in range(70):
        x = torch.randn(24, 40 if step >= s else 3, 1)
        learn(model, opt, F.mse_loss(model(x), x.mean(1)))


def all_zero_recurrence(s):
    """Every weight of a network starts as zero."""
    x, y = patterns()
    model = nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 5))
    if s == 0:
        for p in model.parameters():
            nn.init.zeros_(p)
    opt = optim.Adam(model.parameters(), lr=2e-3)
    for _, (a, b) in zip(range(70), loader(x, y), strict=False):
        learn(model, opt, F.cross_entropy(model(a), b))


def log_of_a_clipped_policy(s):
    """REINFORCE: an action that the mask forbids has probability zero, and its logarithm is taken."""
    policy = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 4))
    opt = optim.Adam(policy.parameters(), lr=2e-3)
    for step in range(90):
        state = torch.randn(24, 5)
        p = F.softmax(policy(state), 1)
        action = torch.multinomial(p.detach(), 1)
        if step == s:
            allowed = torch.ones(24, 4).scatter(1, action[:1].expand(24, 1), 0)
            allowed[1:] = 1
            p = p * allowed
        reward = (action.squeeze(1) == (state[:, 0] > 0).long()).float() - 0.4
        learn(policy, opt, -(p.gather(1, action).squeeze(1).log() * reward).mean())


def distance_of_equal_embeddings(s):
    """A triplet loss takes the root of a squared distance that becomes zero, for a sample paired with itself."""
    net = nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.Linear(48, 16))
    opt = optim.Adam(net.parameters(), lr=1e-3)
    x, y = patterns(400)

    def distance(a, b):
        return torch.sqrt(((a - b) ** 2).sum(1))

    for step in range(90):
        i = torch.randint(400, (32,))
        same = torch.stack([torch.nonzero((y == y[k]) & (torch.arange(400) != k))[step % 40, 0] for k in i.tolist()])
        other = torch.stack([torch.nonzero(y != y[k])[step % 200, 0] for k in i.tolist()])
        if step == s:
            same[5] = i[5]
        a, p, n = net(x[i]), net(x[same]), net(x[other])
        learn(net, opt, F.relu(distance(a, p) - distance(a, n) + 1.0).mean())


def mean_over_no_words(s):
    """A masked mean divides by the number of words, and one review has none."""

    class Bag(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(40, 24)
            self.norm = nn.LayerNorm(24)
            self.out = nn.Linear(24, 4)

        def forward(self, ids, mask):
            h = (self.embed(ids) * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
            return self.out(self.norm(h))

    ids, y = words()
    model = Bag()
    opt = optim.AdamW(model.parameters(), lr=5e-3)
    for step, (a, b) in zip(range(100), loader(ids, y), strict=False):
        mask = (torch.rand(a.shape) > 0.2).float()
        mask[:, 0] = 1
        if step == s:
            mask[3] = 0
        learn(model, opt, F.cross_entropy(model(a, mask), b))


def dice_of_an_empty_picture(s):
    """A Dice loss without smoothing meets a picture whose mask and prediction are empty."""
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))
    opt = optim.Adam(net.parameters(), lr=3e-3)
    for step in range(80):
        image = torch.rand(12, 1, 10, 10)
        mask = (image > 0.6).float()
        out = net(image).sigmoid()
        if step == s:
            crop = torch.ones(12, 1, 1, 1)
            crop[4] = 0
            out, mask = out * crop, mask * crop
        dice = 2 * (out * mask).sum((1, 2, 3)) / (out.sum((1, 2, 3)) + mask.sum((1, 2, 3)))
        learn(net, opt, 1 - dice.mean())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
