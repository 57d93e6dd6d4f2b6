"""Direct preference optimisation: a policy and its frozen reference, log-probabilities of chosen and rejected answers."""

import copy

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(21)
vocab, prompt_len, answer_len, beta = 24, 6, 6, 0.1


class LanguageModel(nn.Module):
    def __init__(self, d=48):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.position = nn.Embedding(prompt_len + answer_len, d)
        layer = nn.TransformerEncoderLayer(d, 4, 96, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(d)
        self.lm_head = nn.Linear(d, vocab, bias=False)

    def forward(self, input_ids):
        length = input_ids.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        hidden = self.embed(input_ids) + self.position(torch.arange(length))
        return self.lm_head(self.norm(self.body(hidden, mask=mask, is_causal=True)))


def sequence_logps(model, input_ids):
    """Sum of the log-probabilities of the answer's tokens."""
    logps = F.log_softmax(model(input_ids)[:, :-1], dim=-1)
    per_token = logps.gather(-1, input_ids[:, 1:, None]).squeeze(-1)
    return per_token[:, prompt_len - 1 :].sum(-1)


prompts = torch.randint(0, vocab, (256, prompt_len))
good = prompts.sort(dim=1).values  # wanted: the prompt in order
bad = torch.randint(0, vocab, (256, answer_len))
chosen, rejected = torch.cat((prompts, good), 1), torch.cat((prompts, bad), 1)

# supervised fine-tuning first
policy = LanguageModel()
optimizer = torch.optim.AdamW(policy.parameters(), lr=2e-3)
for epoch in range(3):
    for (batch,) in DataLoader(TensorDataset(chosen), batch_size=32, shuffle=True):
        loss = F.cross_entropy(policy(batch)[:, prompt_len - 1 : -1].flatten(0, 1), batch[:, prompt_len:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("sft", epoch, loss.item())

reference = copy.deepcopy(policy).eval()
for parameter in reference.parameters():
    parameter.requires_grad_(False)
optimizer = torch.optim.AdamW(policy.parameters(), lr=2e-4)
for epoch in range(3):
    for chosen_ids, rejected_ids in DataLoader(TensorDataset(chosen, rejected), batch_size=32, shuffle=True):
        policy_chosen, policy_rejected = sequence_logps(policy, chosen_ids), sequence_logps(policy, rejected_ids)
        with torch.no_grad():
            reference_chosen = sequence_logps(reference, chosen_ids)
            reference_rejected = sequence_logps(reference, rejected_ids)
        logits = (policy_chosen - policy_rejected) - (reference_chosen - reference_rejected)
        loss = -F.logsigmoid(beta * logits).mean()
        rewards = (
            beta * (policy_chosen - reference_chosen).detach(),
            beta * (policy_rejected - reference_rejected).detach(),
        )
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
    accuracy = (rewards[0] > rewards[1]).float().mean().item()
    print("dpo", epoch, loss.item(), "accuracy", accuracy, "margin", (rewards[0] - rewards[1]).mean().item())
