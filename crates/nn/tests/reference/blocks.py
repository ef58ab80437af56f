"""Makes blocks.json: random blocks of every format, and what the gguf package decodes them to.

Usage: blocks.py > blocks.json

Bytes and values (as the bits of little-endian singles) are in hexadecimal.
"""

import json

import gguf
import numpy

# Format, blocks, offsets of the half-precision scales in a block.
FORMATS = [
    ("F32", 8, None),
    ("F16", 8, None),
    ("BF16", 8, None),
    ("Q4_0", 3, [0]),
    ("Q4_1", 3, [0, 2]),
    ("Q5_0", 3, [0]),
    ("Q5_1", 3, [0, 2]),
    ("Q8_0", 3, [0]),
    ("Q4_K", 2, [0, 2]),
    ("Q5_K", 2, [0, 2]),
    ("Q6_K", 2, [208]),
]


def random_blocks(draws, kind, blocks, scales):
    values, size = gguf.GGML_QUANT_SIZES[kind]
    if scales is None:
        numbers = draws.standard_normal(blocks).astype(numpy.float32)
        return gguf.quants.quantize(numbers, kind).view(numpy.uint8)
    data = draws.integers(0, 256, (blocks, size), dtype=numpy.uint8)
    for offset in scales:
        halves = (draws.standard_normal((blocks, 1)) * 0.01).astype(numpy.float16)
        data[:, offset : offset + 2] = halves.view(numpy.uint8)
    return data.reshape(-1)


def main():
    draws = numpy.random.default_rng(3)
    found = {}
    for name, blocks, scales in FORMATS:
        kind = gguf.GGMLQuantizationType[name]
        data = random_blocks(draws, kind, blocks, scales)
        values = gguf.quants.dequantize(data, kind).astype("<f4")
        found[name] = {"bytes": data.tobytes().hex(), "values": values.tobytes().hex()}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
