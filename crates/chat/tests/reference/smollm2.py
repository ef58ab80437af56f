"""Makes smollm2.json: token ids of texts under SmolLM2-135M-Instruct's tokenizer.

Needs the model's GGUF file as argument, and the packages gguf, regex, tokenizers and transformers:
    python smollm2.py SmolLM2-135M-Instruct.Q4_1.gguf

The ids come from a direct implementation here (single digits, GPT-2's pattern, merges by rank) and
must equal those of Hugging Face's tokenizers library with the model's published configuration.
"""

import json
import sys
from pathlib import Path

import regex
from gguf import GGUFReader
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer
from transformers.convert_slow_tokenizer import bytes_to_unicode

TEXTS = [
    "Hello, world!",
    "  two  spaces\n\nand\tlines \r\n end ",
    "It's 2024: 1234567890 and 3.14159e-10, that's 100%",
    "I'LL we've they're don't 'quoted'",
    "def f(x):\n    return x ** 2  # square\n",
    "naïve café Ünïcödé — “quotes” … ½ ²",
    "日本語と中文와 한국어 русский ελληνικά עברית العربية",
    "👩‍👩‍👧‍👦 😀 e\u0301 \u200b zero width",
    "<|im_start|>user\nWhat is 2+2?<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|><|im_end|><|endoftext|><|im_sta",
    "x<|im_end|>y <repo_name>z",
    "a" * 50 + " " * 17 + "b",
    "\\frac{1}{2} + \\sqrt{x^2} = \\boxed{42}",
    '{"name": "run", "arguments": {"code": "print(\\"hi\\")\\n"}}',
    "",
]

BYTES = bytes_to_unicode()
WORDS = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
NUMERALS = regex.compile(r"\p{N}")


def merge(word, ranks):
    while len(word) > 1:
        pairs = [(ranks.get((a, b), 1 << 60), i) for i, (a, b) in enumerate(zip(word, word[1:]))]
        rank, at = min(pairs)
        if rank == 1 << 60:
            return word
        word = word[:at] + [word[at] + word[at + 1]] + word[at + 2 :]
    return word


def split(pattern, text):
    at = 0
    for found in pattern.finditer(text):
        if found.start() > at:
            yield text[at : found.start()]
        yield found.group()
        at = found.end()
    if at < len(text):
        yield text[at:]


def direct(text, ids, ranks, special):
    out = []
    pattern = regex.compile("|".join(map(regex.escape, sorted(special, key=len, reverse=True))))
    for part in split(pattern, text):
        if part in special:
            out.append(ids[part])
            continue
        for piece in split(NUMERALS, part):
            for word in WORDS.findall(piece):
                spelled = [BYTES[byte] for byte in word.encode()]
                out.extend(ids[token] for token in merge(spelled, ranks))
    return out


def main():
    path = Path(sys.argv[1])
    fields = GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    types = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
    ids = {token: id for id, token in enumerate(tokens)}
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    special = [token for token, kind in zip(tokens, types) if kind == 3]

    library = Tokenizer(models.BPE(vocab=ids, merges=merges))
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens(special)

    cases = []
    for text in TEXTS:
        expected = direct(text, ids, ranks, special)
        assert library.encode(text).ids == expected, text
        as_text = direct(text, ids, ranks, ["\0"])
        cases.append({"text": text, "ids": expected, "ids_as_text": as_text})
    out = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    Path(__file__).with_name("smollm2.json").write_text(f"[\n{out}\n]\n")

    loaded = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    for case in cases:
        theirs = loaded.encode(case["text"], add_special_tokens=False)
        if theirs != case["ids"]:
            print("transformers' own GGUF loading differs on", repr(case["text"]), theirs, case["ids"])


main()
