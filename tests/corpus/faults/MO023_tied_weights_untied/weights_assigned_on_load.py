"""A training with the fault tied-weights-untied; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def weights_assigned_on_load(s):
    """Weights are loaded with assign=True at some step: the tie between embedding and head is gone."""
    onset = s

    class LM(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte = nn.Embedding(40, 24)
            self.block = nn.TransformerEncoderLayer(24, 4, 48, 0.0, batch_first=True)
            self.lm_head = nn.Linear(24, 40, bias=False)
            self.lm_head.weight = self.wte.weight

        def forward(self, t):
            m = nn.Transformer.generate_square_subsequent_mask(t.shape[1])
            return self.lm_head(self.block(self.wte(t), src_mask=m, is_causal=True))

    net = LM()
    opt = torch.optim.SGD(net.parameters(), 0.02, momentum=0.9)
    for i in range(80):
        if i == onset:
            net.load_state_dict({k: v.clone() for k, v in net.state_dict().items()}, assign=True)
            opt = torch.optim.SGD(net.parameters(), 0.02, momentum=0.9)
        t = (torch.arange(12) + torch.randint(0, 40, (16, 1))) % 40
        loss = nn.functional.cross_entropy(net(t[:, :-1]).flatten(0, 1), t[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    weights_assigned_on_load(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
