"""Writes gradients.json: logits and gradients of tiny models, computed by transformers in float64.

Weights come from a closed formula (see `value`), so that only results are stored. Of each gradient
there are its sum, its sum of squares, and some entries; of the logits, those from position 8 on. Run with torch and transformers:

    python gradients.py > gradients.json
"""

import json
import math

import torch
from transformers import AutoConfig, AutoModelForCausalLM

COMMON = dict(
    vocab_size=53, hidden_size=24, intermediate_size=37, num_hidden_layers=2,
    max_position_embeddings=64, initializer_range=0.02, attention_dropout=0.0,
    pad_token_id=None, bos_token_id=None, eos_token_id=None,
)
LLAMA3 = dict(rope_type="llama3", rope_theta=500.0, factor=4.0, low_freq_factor=1.0,
              high_freq_factor=3.0, original_max_position_embeddings=16)
MODELS = {
    "llama_tied": dict(model_type="llama", num_attention_heads=4, num_key_value_heads=2, head_dim=6,
                       rms_norm_eps=1e-5, tie_word_embeddings=True,
                       rope_parameters=dict(rope_type="default", rope_theta=100.0)),
    "llama3_untied": dict(model_type="llama", num_attention_heads=3, num_key_value_heads=1,
                          head_dim=8, rms_norm_eps=1e-6, tie_word_embeddings=False,
                          rope_parameters=LLAMA3),
    "qwen2": dict(model_type="qwen2", num_attention_heads=6, num_key_value_heads=2,
                  rms_norm_eps=1e-6, tie_word_embeddings=True,
                  rope_parameters=dict(rope_type="default", rope_theta=1000.0)),
    "qwen3": dict(model_type="qwen3", num_attention_heads=6, num_key_value_heads=3, head_dim=10,
                  rms_norm_eps=1e-6, tie_word_embeddings=False,
                  rope_parameters=dict(rope_type="default", rope_theta=1000.0)),
}
LENGTHS = [9, 1, 14]


def value(tensor: int, at: int, matrix: bool, is_bias: bool) -> float:
    draw = math.sin((tensor + 1) * 12.9898 + at * 78.233) * 43758.5453
    draw = 2.0 * (draw - math.floor(draw)) - 1.0
    if matrix:
        return 0.35 * draw
    return 0.2 * draw if is_bias else 1.0 + 0.3 * draw


def order(name: str) -> tuple:
    """Order of the buffer."""
    parts = ["input_layernorm", "q_proj.weight", "k_proj.weight", "v_proj.weight", "q_proj.bias",
             "k_proj.bias", "v_proj.bias", "q_norm", "k_norm", "o_proj",
             "post_attention_layernorm", "gate_proj", "up_proj", "down_proj"]
    if name == "model.embed_tokens.weight":
        return (0, 0, 0)
    if name == "model.norm.weight":
        return (2, 0, 0)
    if name == "lm_head.weight":
        return (3, 0, 0)
    place = next(i for i, part in enumerate(parts) if part in name)
    return (1, int(name.split(".")[2]), place)


def short(number: torch.Tensor) -> float:
    return float(f"{number.item():.9g}")


def run(options: dict) -> dict:
    options = dict(options)
    config = AutoConfig.for_model(options.pop("model_type"), **COMMON, **options)
    config._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config).double()
    model.train()
    # The buffer of angles is computed in float32 by transformers: here in float64, as we do.
    rotary = model.model.rotary_emb
    rope = config.rope_parameters
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    frequencies = [rope["rope_theta"] ** (-2.0 * i / head) for i in range(head // 2)]
    if rope["rope_type"] == "llama3":
        def change(f):
            wavelength = 2 * math.pi / f
            original = rope["original_max_position_embeddings"]
            if wavelength > original / rope["low_freq_factor"]:
                return f / rope["factor"]
            if wavelength < original / rope["high_freq_factor"]:
                return f
            smooth = (original / wavelength - rope["low_freq_factor"]) / (
                rope["high_freq_factor"] - rope["low_freq_factor"])
            return (1 - smooth) * f / rope["factor"] + smooth * f
        frequencies = [change(f) for f in frequencies]
    exact = torch.tensor(frequencies, dtype=torch.float64)
    error = (rotary.inv_freq.double() - exact).abs().max().item()
    assert error < 1e-6, error

    def angles(x, position_ids):
        table = position_ids[..., None].double() * exact
        table = torch.cat([table, table], dim=-1)
        return table.cos(), table.sin()

    rotary.forward = angles
    named = sorted(dict(model.named_parameters()).items(), key=lambda item: order(item[0]))
    with torch.no_grad():
        for index, (name, tensor) in enumerate(named):
            flat = [value(index, at, tensor.dim() == 2, name.endswith("bias"))
                    for at in range(tensor.numel())]
            tensor.copy_(torch.tensor(flat, dtype=torch.float64).view_as(tensor))
    loss, count, logits = 0.0, 0, []
    position = 0
    for length in LENGTHS:
        tokens = torch.tensor([[(7 * (position + at) ** 2 + 3) % 53 for at in range(length)]])
        output = model(input_ids=tokens, use_cache=False).logits[0]
        logits.append(output)
        for at in range(length - 1):
            if (position + at) % 5 != 3:
                loss = loss - torch.log_softmax(output[at], -1)[tokens[0, at + 1]]
                count += 1
        position += length
    loss = loss / count
    loss.backward()
    gradients = {}
    for name, tensor in named:
        flat = tensor.grad.reshape(-1)
        step = max(1, flat.numel() // 12)
        gradients[name] = dict(
            sum=short(flat.sum()), squares=short((flat * flat).sum()),
            entries=[[at, short(flat[at])] for at in range(0, flat.numel(), step)],
        )
    rows = torch.cat(logits)
    return dict(loss=loss.item(), targets=count,
                logits=[round(v, 6) for v in rows[8:].reshape(-1).tolist()],
                gradients=gradients)


print(json.dumps({name: run(options) for name, options in MODELS.items()}))
