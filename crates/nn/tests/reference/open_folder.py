"""Opens what rocstar wrote in transformers and PEFT, and compares what they find.

Usage: open_folder.py FOLDER [MODEL.gguf]      one folder, as `rocstar model convert` writes it
       open_folder.py --all FOLDERS            what the test `folders_for_others_…` wrote:
           ROCSTAR_FOLDERS=FOLDERS cargo test -p rocstar-nn --test files folders_for_others

Each folder must load without missing, unexpected or mismatched weights and give finite logits. With
a GGUF file: the weights must equal, bit for bit, those that transformers dequantises from it.
Adapters must load in PEFT, and merge to the weights that rocstar merged.
"""

import pathlib
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


def check(folder):
    model = open_folder(folder)
    config = model.config
    tokens = torch.arange(8)[None] * 7 % config.vocab_size
    with torch.no_grad():
        logits = model(tokens).logits
    assert logits.shape == (1, 8, config.vocab_size), logits.shape
    assert torch.isfinite(logits).all()
    print(f"{folder}: {type(model).__name__} {model.dtype} logits {tuple(logits.shape)} "
          f"rope {config.rope_parameters} tied {config.tie_word_embeddings} "
          f"head_dim {getattr(config, 'head_dim', None)} eos {config.eos_token_id}")
    return model


def compare_with_gguf(model, path):
    folder, _, name = path.rpartition("/")
    other = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
    theirs = dict(other.named_parameters())
    differing = [n for n, p in model.named_parameters() if not torch.equal(p, theirs.pop(n))]
    assert not differing and not theirs, (differing, list(theirs))
    print(f"all {len(list(model.parameters()))} weights equal those of {name}")


def compare_merged(folder):
    from peft import PeftModel

    model = PeftModel.from_pretrained(open_folder(folder), f"{folder}-adapter")
    theirs = dict(model.merge_and_unload().named_parameters())
    ours = dict(open_folder(f"{folder}-merged").named_parameters())
    assert theirs.keys() == ours.keys()
    changed = 0
    for name, base in open_folder(folder).named_parameters():
        torch.testing.assert_close(theirs[name], ours[name], rtol=1e-6, atol=1e-7)
        changed += not torch.equal(ours[name], base)
    assert changed == 4 * model.config.num_hidden_layers, changed
    print(f"{folder}-adapter: PEFT merges to the same, {changed} weights changed")


def main():
    match sys.argv[1:]:
        case ["--all", folders]:
            for folder in sorted(pathlib.Path(folders).iterdir()):
                if not folder.name.endswith("-adapter"):
                    check(folder)
                if folder.name.endswith("-tied"):
                    compare_merged(folder)
        case [folder]:
            check(folder)
        case [folder, gguf]:
            compare_with_gguf(check(folder), gguf)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
