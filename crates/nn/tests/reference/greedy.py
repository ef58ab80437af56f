"""Greedy continuations of SmolLM2-135M-Instruct by transformers, on the weights of its Q4_1 GGUF.

    python tests/reference/greedy.py SmolLM2-135M-Instruct.Q4_1.gguf > tests/reference/greedy.json

Needs torch, transformers and gguf. The weights are dequantised by the gguf package; llama.cpp's order
of the rows of query and key, pairs side by side, is turned back to Hugging Face's, halves.
"""

import json
import sys

import numpy
import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from transformers import LlamaConfig, LlamaForCausalLM

HEADS, KEY_VALUE_HEADS, NEW_TOKENS = 9, 3, 24
NAMES = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}  # fmt: skip
PROMPTS = [
    "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nWrite a Python function that adds two numbers.<|im_end|>\n<|im_start|>assistant\n",
    "Once upon a time, in a small village by the sea,",
    "1, 2, 3, 4, 5,",
]


def name(tensor):
    if not tensor.startswith("blk."):
        return {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}[tensor]
    _, layer, kind, _ = tensor.split(".")
    return f"model.layers.{layer}.{NAMES[kind]}.weight"


def halves(matrix, heads):
    return matrix.reshape(heads, -1, 2, matrix.shape[1]).swapaxes(1, 2).reshape(matrix.shape)


def tokenizer(reader):
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    field = lambda key: reader.fields["tokenizer.ggml." + key].contents()
    tokens, kinds = field("tokens"), field("token_type")
    merges = [tuple(merge.split(" ")) for merge in field("merges")]
    made = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, merges))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(t, special=True) for t, kind in zip(tokens, kinds) if kind == 3])
    return made


def main(path):
    reader = GGUFReader(path)
    config = LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
        num_attention_heads=HEADS, num_key_value_heads=KEY_VALUE_HEADS, rms_norm_eps=1e-5,
        rope_theta=100000.0, max_position_embeddings=8192, tie_word_embeddings=True,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    state = {}
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32)
        if ".attn_q." in tensor.name:
            values = halves(values, HEADS)
        if ".attn_k." in tensor.name:
            values = halves(values, KEY_VALUE_HEADS)
        state[name(tensor.name)] = torch.from_numpy(values.copy())
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state)
    made = tokenizer(reader)
    cases = []
    for prompt in PROMPTS:
        ids = made.encode(prompt).ids
        out = model.generate(
            torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long),
            do_sample=False, max_new_tokens=NEW_TOKENS, eos_token_id=2, pad_token_id=2,
            return_dict_in_generate=True, output_logits=True,
        )  # fmt: skip
        new = out.sequences[0, len(ids):].tolist()
        margins = [float(top[0] - top[1]) for top in (logits[0].topk(2).values for logits in out.logits)]
        cases.append({"text": made.decode(new), "prompt": ids, "new": new, "least_margin": min(margins)})
    print("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]")


main(sys.argv[1])
