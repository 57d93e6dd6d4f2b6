"""A training with the fault train-mode-in-eval; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Tagger(nn.Module):
    def __init__(self, vocab=80, dim=40, tags=6):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.drop = nn.Dropout(0.3)
        self.rnn = nn.GRU(dim, 48, batch_first=True, bidirectional=True)
        self.out = nn.Linear(96, tags)
        self.goes_back = False

    def forward(self, tokens):
        h, _ = self.rnn(self.drop(self.embed(tokens)))
        return self.out(self.drop(h))

    def predict(self, tokens):
        logits = self(tokens)
        if self.goes_back:
            self.train()
        return logits.softmax(-1)


def predicts_and_goes_back_to_training(s):
    """Only the first batch of an evaluation runs in eval mode: predict() switches back."""
    net, rule = Tagger(), torch.randint(0, 6, (80,))
    tokens = torch.randint(0, 80, (1200, 14))
    tags = (rule[tokens] + (tokens.roll(1, 1) < 20)) % 6
    opt = torch.optim.RAdam(net.parameters(), lr=1.5e-2)
    for i in range(110):
        if i > 0 and i % min(s, 40) == 0:
            net.goes_back = i >= s
            net.eval()
            with torch.inference_mode():
                right = sum(
                    (net.predict(tokens[a : a + 25]).argmax(-1) == tags[a : a + 25]).sum().item()
                    for a in range(1000, 1200, 25)
                )
            print(i, right / 2800)
        net.train()
        idx = torch.randint(0, 1000, (20,))
        loss = F.cross_entropy(net(tokens[idx]).flatten(0, 1), tags[idx].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    predicts_and_goes_back_to_training(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
