import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
PATCHES, DIM = 9, 32


def sample_scenes(n, g):
    """Each scene is a smooth wave pattern; a target view is the pattern seen from a shifted pose."""
    freq = 1.1
    amp = 0.6 + 0.8 * torch.rand(n, 1, generator=g)
    phase = 6.28 * torch.rand(n, 1, generator=g)
    pos = torch.linspace(-1.5, 1.5, PATCHES).unsqueeze(0)
    pose = 2 * torch.rand(n, 1, generator=g) - 1
    context = amp * torch.sin(freq * pos + phase)
    target = amp * torch.sin(freq * (pos + pose) + phase)
    return context, pose, target


class ViewTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Linear(1, DIM)
        self.pose = nn.Linear(1, DIM)
        self.pos = nn.Parameter(0.3 * torch.randn(1, PATCHES, DIM))
        layer = nn.TransformerEncoderLayer(DIM, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Sequential(nn.LayerNorm(DIM), nn.Linear(DIM, 1))

    def forward(self, context, pose):
        x = self.patch(context.unsqueeze(-1)) + self.pos + self.pose(pose).unsqueeze(1)
        return self.out(self.body(x)).squeeze(-1)


def main(steps=300, lr=3e-3, grad_clip=1.0, allowed_gradnorm_factor=2.5):
    torch.manual_seed(95)
    g = torch.Generator().manual_seed(1)
    valid = sample_scenes(256, torch.Generator().manual_seed(2))
    model = ViewTransformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.95))
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    usual_norm, param_updates = None, 0
    for step in range(steps):
        model.train()
        context, pose, target = sample_scenes(16, g)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            pred = model(context, pose)
        loss = F.mse_loss(pred.float(), target)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        grad_norm = nn.utils.clip_grad_norm_(model.parameters(), grad_clip).item()
        skip_optimizer_step = not math.isfinite(grad_norm)
        if usual_norm is not None and step > 20 and grad_norm > allowed_gradnorm_factor * usual_norm:
            print(f"WARNING: step {step} grad norm too large {grad_norm:.3f}, skipping optimizer step")
            skip_optimizer_step = True
        usual_norm = grad_norm if usual_norm is None else 0.9 * usual_norm + 0.1 * grad_norm
        if not skip_optimizer_step:
            scaler.step(optimizer)
            scaler.update()
            param_updates += 1
        if (step + 1) % 30 == 0:
            model.eval()
            with torch.no_grad():
                val = F.mse_loss(model(valid[0], valid[1]), valid[2]).item()
            print(f"step {step + 1} (updates {param_updates}) loss {loss.item():.4f} valid {val:.4f}")


if __name__ == "__main__":
    main()
