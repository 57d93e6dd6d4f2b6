"""Weights that change the outputs and get no gradient from them."""

import pytest
import torch
from firstfault.recorder import probes
from torch import nn
from torch.nn.functional import mse_loss


class Quantized(nn.Module):
    def __init__(self, straight_through):
        super().__init__()
        torch.manual_seed(0)
        self.encoder, self.codes, self.decoder = nn.Linear(6, 3), nn.Embedding(16, 3), nn.Linear(3, 6)
        self.straight_through = straight_through

    def forward(self, x):
        z = self.encoder(x)
        q = self.codes(torch.cdist(z, self.codes.weight).argmin(1))
        loss = mse_loss(q, z.detach()) + mse_loss(z, q.detach())
        return self.decoder(z + (q - z).detach() if self.straight_through else q), loss


class Probed(nn.Module):
    """A second head that reads detached features, on purpose."""

    def __init__(self):
        super().__init__()
        self.body, self.head, self.probe = nn.Linear(6, 3), nn.Linear(3, 6), nn.Linear(3, 2)

    def forward(self, x):
        h = self.body(x)
        return self.head(h), self.probe(h.detach()).mean()


@pytest.mark.parametrize(
    ("model", "code"),
    [(Quantized(False), "graph-cut"), (Quantized(True), "graph-whole"), (Probed(), "graph-whole")],
)
def test_weights_behind_an_operator_without_a_gradient_are_found(model, code):
    def loss(model, batch):
        recon, other = model(batch[0])
        return mse_loss(recon, batch[0]) + other

    bench = probes.Bench(model, (torch.randn(32, 6),), loss)
    (found,) = [f for f in probes.check_all(bench) if f.probe == "dependence-graph"]
    assert found.code == code
    if code == "graph-cut":
        assert (found.values["first"], found.values["count"]) == ("encoder.weight", 2)
