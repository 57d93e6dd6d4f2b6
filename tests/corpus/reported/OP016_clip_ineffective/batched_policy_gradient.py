import collections

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)

Transition = collections.namedtuple("Transition", "info_state action reward discount legal_actions_mask")


class MatchingGame:
    """A short card game: each turn shows a hand (2 of 4 suits) and a trump; playing the suit that ranks best wins."""

    num_actions, state_size, length = 4, 8, 4

    def __init__(self, seed):
        self.rng = np.random.RandomState(seed)

    def deal(self):
        self.hand = self.rng.choice(4, 2, replace=False)
        self.trump = self.rng.randint(4)

    def observe(self):
        state = np.zeros(8, dtype=np.float32)
        state[self.hand] = 1.0
        state[4 + self.trump] = 1.0
        mask = np.zeros(4, dtype=np.float32)
        mask[self.hand] = 1.0
        return state, mask

    def play(self, action):
        rank = (self.hand - self.trump) % 4
        best = self.hand[np.argmin(rank)]
        return 3.0 if action == best else -3.0


class MLP(nn.Module):
    def __init__(self, i, h, o):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, o))

    def forward(self, x):
        return self.body(x)


class PolicyGradient:
    """Batch A2C: critic steps every batch, policy step after each of them."""

    def __init__(self, state_size, num_actions, hidden=48, batch_episodes=16, critic_lr=0.01, pi_lr=0.02,
                 entropy_cost=0.02, max_global_gradient_norm=2.0):
        self._policy_network = MLP(state_size, hidden, num_actions)
        self._critic_network = MLP(state_size, hidden, 1)
        self._pi_optimizer = torch.optim.SGD(self._policy_network.parameters(), lr=pi_lr, momentum=0.9)
        self._critic_optimizer = torch.optim.Adam(self._critic_network.parameters(), lr=critic_lr)
        self._max_global_gradient_norm = max_global_gradient_norm
        self._entropy_cost = entropy_cost
        self._batch_episodes = batch_episodes
        self._dataset = []

    def act(self, state, mask, greedy=False):
        with torch.no_grad():
            logits = self._policy_network(torch.from_numpy(state))
            probs = torch.softmax(logits.masked_fill(torch.from_numpy(mask) == 0, -1e4), -1).numpy().astype(np.float64)
        return int(probs.argmax()) if greedy else int(np.random.choice(len(probs), p=probs / probs.sum()))

    def add_episode(self, episode):
        self._dataset.append(episode)
        if len(self._dataset) == self._batch_episodes:
            out = self._critic_update(), self._pi_update()
            self._dataset = []
            return out

    def _tensors(self):
        flat = [t for ep in self._dataset for t in ep]
        returns = []
        for ep in self._dataset:
            run, rets = 0.0, []
            for t in reversed(ep):
                run = t.reward + t.discount * run
                rets.append(run)
            returns += rets[::-1]
        return (torch.from_numpy(np.stack([t.info_state for t in flat])), torch.tensor([t.action for t in flat]),
                torch.tensor(returns, dtype=torch.float32), torch.from_numpy(np.stack([t.legal_actions_mask for t in flat])))

    def _critic_update(self):
        states, _, returns, _ = self._tensors()
        critic_loss = F.mse_loss(self._critic_network(states).squeeze(1), returns)
        self._critic_optimizer.zero_grad()
        critic_loss.backward()
        self._critic_optimizer.step()
        return critic_loss.item()

    def _pi_update(self):
        states, actions, returns, masks = self._tensors()
        logits = self._policy_network(states).masked_fill(masks == 0, -1e4)
        logp = F.log_softmax(logits, -1)
        with torch.no_grad():
            advantage = returns - self._critic_network(states).squeeze(1)
        entropy = -(logp.exp() * logp).sum(-1).mean()
        pi_loss = -(logp.gather(1, actions[:, None]).squeeze(1) * advantage).mean() - self._entropy_cost * entropy
        self._pi_optimizer.zero_grad()
        pi_loss.backward()
        if self._max_global_gradient_norm:
            nn.utils.clip_grad_norm_(self._critic_network.parameters(), self._max_global_gradient_norm)
        self._pi_optimizer.step()
        return pi_loss.item()


def play_episode(env, agent, gamma=0.3, greedy=False):
    episode = []
    for t in range(env.length):
        env.deal()
        state, mask = env.observe()
        action = agent.act(state, mask, greedy)
        episode.append(Transition(state, action, env.play(action), gamma if t < env.length - 1 else 0.0, mask))
    return episode


def main():
    np.random.seed(0)
    torch.manual_seed(0)
    env, eval_env = MatchingGame(1), MatchingGame(2)
    agent = PolicyGradient(env.state_size, env.num_actions)
    rewards, critic = [], []
    for ep in range(1, 16 * 160 + 1):
        episode = play_episode(env, agent)
        rewards.append(sum(t.reward for t in episode))
        losses = agent.add_episode(episode)
        if losses:
            critic.append(losses[0])
        if ep % 400 == 0:
            ev = np.mean([sum(t.reward for t in play_episode(eval_env, agent, greedy=True)) for _ in range(40)])
            print(f"episode {ep}: mean reward {np.mean(rewards):.3f}  critic loss {np.mean(critic):.3f}  greedy eval {ev:.3f}")
            rewards, critic = [], []


if __name__ == "__main__":
    main()
