"""Training scripts of an opponent, sixth round: faults of models and graphs.

    python opponent_six_model_faults.py NAME [ONSET] [SEED]

`s` is the step at which the fault begins; one that is there from the start is there if `s` is 0. With an onset beyond the
last step each script is healthy.
"""

import contextlib
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def adapters_put_in_late(s):
    """LoRA-like adapters that are put into the model at some step, and forgotten in the optimizer."""
    onset = s

    class LoRALinear(nn.Module):
        def __init__(self, base, rank=4):
            super().__init__()
            self.base = base
            self.A = nn.Parameter(torch.randn(rank, base.in_features) / math.sqrt(base.in_features))
            self.B = nn.Parameter(torch.zeros(base.out_features, rank))

        def forward(self, x):
            return self.base(x) + x @ self.A.T @ self.B.T

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.l1 = nn.Linear(16, 64)
            self.l2 = nn.Linear(64, 64)
            self.l3 = nn.Linear(64, 3)

        def forward(self, x):
            return self.l3(torch.relu(self.l2(torch.relu(self.l1(x)))))

    net = Net()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    mix = torch.randn(16, 3)
    for step in range(100):
        if step == onset:
            net.l2 = LoRALinear(net.l2)
        if step == 40 and onset > 99:
            net.l2 = LoRALinear(net.l2)
            opt.add_param_group({"params": [net.l2.A, net.l2.B]})
        x = torch.randn(32, 16)
        y = (x @ mix).argmax(1)
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def callback_freezes_the_encoder(s):
    """A 'freeze the encoder' hook of a callback fires at the wrong step."""
    onset = s

    class Callback:
        def on_step(self, trainer, step): ...

    class Freezer(Callback):
        def on_step(self, trainer, step):
            if step == onset:
                for q in trainer.model["encoder"].parameters():
                    q.requires_grad = False

    class Trainer:
        def __init__(self, model, callbacks):
            self.model, self.callbacks = model, callbacks
            self.opt = torch.optim.Adam(model.parameters(), lr=1e-3)

        def train(self, steps):
            for step in range(steps):
                for c in self.callbacks:
                    c.on_step(self, step)
                x = torch.randn(32, 20)
                rec = self.model["decoder"](self.model["encoder"](x))
                loss = (rec - x).square().mean()
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()

    m = nn.ModuleDict(
        {
            "encoder": nn.Sequential(nn.Linear(20, 40), nn.Tanh(), nn.Linear(40, 8)),
            "decoder": nn.Sequential(nn.Linear(8, 40), nn.Tanh(), nn.Linear(40, 20)),
        }
    )
    Trainer(m, [Freezer()]).train(90)


def tokens_chosen_by_argmax_between_two_models(s):
    """Generator's tokens go through argmax into the critic: no gradient for the generator from some step on (soft before)."""
    onset = s
    gen = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 12))
    emb = nn.Linear(12, 16)
    critic = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
    opt = torch.optim.Adam([*gen.parameters(), *emb.parameters(), *critic.parameters()], 1e-3)
    for i in range(80):
        z = gen(torch.randn(24, 8))
        w_ = F.one_hot(z.argmax(-1), 12).float() if i >= onset else F.gumbel_softmax(z, tau=1.0)
        loss = F.mse_loss(critic(emb(w_)), torch.ones(24, 1))
        opt.zero_grad()
        loss.backward()
        opt.step()


def no_grad_left_round_the_encoder_layer(s):
    """The feature extractor sits in a no_grad block left over from fine-tuning, though its weights are to be trained."""
    wrong = s == 0

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Linear(10, 48)
            self.layer = nn.TransformerEncoderLayer(48, 4, 96, 0.1, batch_first=True)
            self.head = nn.Linear(48, 4)

        def forward(self, x):
            with torch.no_grad() if wrong else contextlib.nullcontext():
                h = self.layer(self.embed(x))
            return self.head(h.mean(1))

    m = Model()
    opt = torch.optim.AdamW(m.parameters(), 1e-3)
    for _i in range(70):
        x = torch.randn(16, 6, 10)
        y = x.mean(1)[:, :4].argmax(1)
        loss = nn.functional.cross_entropy(m(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def bottleneck_pushed_below_zero(s):
    """Convolutional net where a single too large step (gradient of a summed loss) kills the ReLUs of the bottleneck."""
    onset = s

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.d1 = nn.Conv2d(1, 8, 3, padding=1)
            self.a1 = nn.ReLU()
            self.d2 = nn.Conv2d(8, 16, 3, padding=1, stride=2)
            self.a2 = nn.ReLU()
            self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
            self.out = nn.Conv2d(16, 1, 1)

        def forward(self, x):
            a = self.a1(self.d1(x))
            b = self.a2(self.d2(a))
            return self.out(torch.cat([a, self.up(b)], 1))

    net = Net()
    opt = torch.optim.SGD(net.parameters(), 0.05)
    for i in range(90):
        x = torch.rand(8, 1, 8, 8)
        y = (x > 0.5).float()
        loss = nn.functional.binary_cross_entropy_with_logits(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i == onset:
            with torch.no_grad():
                net.d2.bias.sub_(30.0)


def gain_of_more_than_two(s):
    """Plain deep ReLU network, weights drawn with std 0.4 in width 64: activations grow by a factor of two a layer."""
    wrong = s == 0

    def mlp(depth, d, gain):
        ls = [nn.Linear(d, d) for _ in range(depth)]
        for layer in ls:
            nn.init.normal_(layer.weight, std=gain * (2 / d) ** 0.5)
            nn.init.zeros_(layer.bias)
        return nn.Sequential(*[m for layer in ls for m in (layer, nn.ReLU())], nn.Linear(d, 4))

    net = mlp(10, 64, 2.3 if wrong else 1.0)
    opt = torch.optim.Adam(net.parameters(), 3e-4)
    for _i in range(70):
        x = torch.randn(32, 64)
        y = x[:, :4].argmax(1)
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def text_net_that_ends_in_softmax(s):
    """Trainer with a text CNN whose last layer is nn.Softmax, loss with class weights and label smoothing."""
    wrong = s == 0

    class TextCNN(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = nn.Embedding(100, 24)
            self.conv = nn.Conv1d(24, 32, 3, padding=1)
            self.drop = nn.Dropout(0.2)
            self.fc = nn.Linear(32, 6)
            self.softmax = nn.Softmax(-1)

        def forward(self, t):
            h = torch.relu(self.conv(self.emb(t).transpose(1, 2))).amax(-1)
            z = self.fc(self.drop(h))
            return self.softmax(z) if wrong else z

    net = TextCNN()
    opt = torch.optim.Adam(net.parameters(), 2e-3)
    crit = nn.CrossEntropyLoss(weight=torch.ones(6), label_smoothing=0.05)
    for _i in range(100):
        y = torch.randint(0, 6, (32,))
        t = torch.randint(0, 100, (32, 9))
        t[:, 4] = y * 3
        loss = crit(net(t), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def targets_in_percent(s):
    """BCELoss on targets in percent from some step on."""
    onset = s
    net = nn.Sequential(nn.Linear(9, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = torch.optim.Adam(net.parameters(), 2e-3)
    crit = nn.BCEWithLogitsLoss()
    for i in range(100):
        x = torch.randn(32, 9)
        y = (x[:, :1] > 0).float()
        if i >= onset:
            y = y * 100
        loss = crit(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
