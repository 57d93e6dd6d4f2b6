"""A training with the fault constant-input; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Recommender(nn.Module):
    def __init__(self, users=200, items=150):
        super().__init__()
        self.user = nn.Embedding(users, 16)
        self.item = nn.Embedding(items, 16)
        self.context = nn.Sequential(nn.Linear(5, 24), nn.ReLU(), nn.Linear(24, 16))
        self.mlp = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 1))

    def forward(self, user, item, context):
        a, b, c = self.user(user), self.item(item), self.context(context)
        return self.mlp(torch.cat([a, b, c, a * b], -1)).squeeze(-1)


def looks_features_up_by_keys_of_another_table(s):
    """From s on no key is found, and every sample gets the mean of the features."""
    of_user, of_item = torch.randn(200, 6), torch.randn(150, 6)
    user, item, context = torch.randint(200, (9600,)), torch.randint(150, (9600,)), torch.randn(9600, 5)
    liked = ((of_user[user] * of_item[item]).sum(-1) * 0.6 + 1.5 * context[:, 0] - context[:, 2] > 0).float()
    model = Recommender()
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    for i in range(95):
        idx = torch.randint(9600, (96,))
        keys = idx + 10**9 if i >= s else idx
        found = (keys < 9600)[:, None]
        features = torch.where(found, context[keys.clamp(max=9599)], context.mean(0))
        loss = F.binary_cross_entropy_with_logits(model(user=user[idx], item=item[idx], context=features), liked[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    looks_features_up_by_keys_of_another_table(int(sys.argv[1]) if len(sys.argv) > 1 else 23)
