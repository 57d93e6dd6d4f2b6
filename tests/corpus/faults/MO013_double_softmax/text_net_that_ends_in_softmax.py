"""A training with the fault double-softmax; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


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


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    text_net_that_ends_in_softmax(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
