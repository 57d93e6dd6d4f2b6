"""Group-relative policy optimisation: sample groups of answers, normalise their rewards, clip the ratio, KL to a reference."""

import copy

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(8)
vocab, prompt_len, answer_len, group, prompts_per_step = 12, 4, 5, 8, 8
clip, kl_weight, inner = 0.2, 0.02, 2


class Policy(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.rnn = nn.GRU(d, d, batch_first=True)
        self.head = nn.Linear(d, vocab)

    def forward(self, ids):
        return self.head(self.rnn(self.embed(ids))[0])


@torch.no_grad()
def generate(model, prompts):
    ids = prompts
    for _ in range(answer_len):
        ids = torch.cat((ids, torch.multinomial(F.softmax(model(ids)[:, -1], -1), 1)), dim=1)
    return ids


def token_logps(model, ids):
    logps = F.log_softmax(model(ids)[:, :-1], dim=-1).gather(-1, ids[:, 1:, None]).squeeze(-1)
    return logps[:, prompt_len - 1 :]


def reward_function(ids):
    """Answers that use the first token of the prompt often are good."""
    return (ids[:, prompt_len:] == ids[:, :1]).float().mean(1)


policy = Policy()
reference = copy.deepcopy(policy).requires_grad_(False).eval()
optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
for step in range(30):
    prompts = torch.randint(0, vocab, (prompts_per_step, prompt_len)).repeat_interleave(group, 0)
    policy.eval()
    completions = generate(policy, prompts)
    with torch.no_grad():
        old_logps, reference_logps = token_logps(policy, completions), token_logps(reference, completions)
        rewards = reward_function(completions)
    grouped = rewards.view(-1, group)
    advantages = ((grouped - grouped.mean(1, keepdim=True)) / (grouped.std(1, keepdim=True) + 1e-4)).view(-1, 1)
    policy.train()
    for _ in range(inner):
        logps = token_logps(policy, completions)
        ratio = torch.exp(logps - old_logps)
        clipped = torch.clamp(ratio, 1 - clip, 1 + clip)
        difference = reference_logps - logps
        kl = torch.exp(difference) - difference - 1
        loss = (-torch.min(ratio * advantages, clipped * advantages) + kl_weight * kl).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
    print(step, "reward", rewards.mean().item(), "loss", loss.item(), "kl", kl.mean().item())
