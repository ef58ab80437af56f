"""Opens folders that `files::save` wrote in transformers, and compares what it finds.

Usage: open_folder.py FOLDER [MODEL.gguf]

Each folder must load without missing, unexpected or mismatched weights and give finite logits. With
a GGUF file: the weights must equal, bit for bit, those that transformers dequantises from it.
"""

import sys

import torch
from transformers import AutoModelForCausalLM


def open_folder(folder):
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype="auto", output_loading_info=True
    )
    problems = {key: list(value) for key, value in info.items() if value}
    assert not problems, problems
    return model


def main():
    folder, *gguf = sys.argv[1:] or sys.exit(__doc__)
    model = open_folder(folder)
    config = model.config
    tokens = torch.arange(8)[None] * 7 % config.vocab_size
    with torch.no_grad():
        logits = model(tokens).logits
    assert logits.shape == (1, 8, config.vocab_size), logits.shape
    assert torch.isfinite(logits).all()
    print(f"{type(model).__name__} {model.dtype} logits {tuple(logits.shape)}")
    print(f"rope {config.rope_parameters} tied {config.tie_word_embeddings} "
          f"head_dim {getattr(config, 'head_dim', None)} eos {config.eos_token_id}")
    if gguf:
        path = gguf[0].rpartition("/")
        other = AutoModelForCausalLM.from_pretrained(path[0], gguf_file=path[2], dtype=torch.float32)
        theirs = dict(other.named_parameters())
        differing = [n for n, p in model.named_parameters() if not torch.equal(p, theirs.pop(n))]
        assert not differing and not theirs, (differing, list(theirs))
        print(f"all {len(list(model.parameters()))} weights equal those of {path[2]}")


if __name__ == "__main__":
    main()
