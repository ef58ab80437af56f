"""Prints what torch's AdamW and clip_grad_norm_ do, for the test in optimizer.rs.

    python optimizer.py
"""

import math

import torch

torch.set_default_dtype(torch.float64)
matrix = torch.nn.Parameter(torch.tensor([[0.5, -1.0], [2.0, 0.25]]))
norm = torch.nn.Parameter(torch.tensor([1.0, 1.5]))
optimizer = torch.optim.AdamW(
    [dict(params=[matrix], weight_decay=0.1), dict(params=[norm], weight_decay=0.0)],
    lr=0.05, betas=(0.8, 0.95), eps=1e-6,
)
for step in range(4):
    matrix.grad = torch.tensor([[math.sin(step + at) * 3 for at in (0, 1)],
                                [math.sin(step + at) * 3 for at in (2, 3)]])
    norm.grad = torch.tensor([math.sin(step + at) * 3 for at in (4, 5)])
    total = torch.nn.utils.clip_grad_norm_([matrix, norm], 2.0)
    optimizer.step()
    print(f"{total.item():.9f}", [f"{v:.9f}" for v in matrix.flatten().tolist() + norm.tolist()])
