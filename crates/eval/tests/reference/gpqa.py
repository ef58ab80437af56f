# The letters that are right for questions 0 to 15 with seed 0: ChaCha8 written out (as in
# crates/record/tests/reference/draw.py), Lemire's bounded draws, and a shuffle from the end. The
# right answer comes first, then the three wrong ones.
import struct

def chacha(key, counter, rounds=8):
    state = list(struct.unpack("<4I", b"expand 32-byte k")) + list(struct.unpack("<8I", key)) + [counter & 0xffffffff, counter >> 32, 0, 0]
    x = state[:]
    def quarter(a, b, c, d):
        for (p, q, r, n) in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[p] = (x[p] + x[q]) & 0xffffffff; v = x[r] ^ x[p]; x[r] = ((v << n) | (v >> (32 - n))) & 0xffffffff
    for _ in range(rounds // 2):
        quarter(0,4,8,12); quarter(1,5,9,13); quarter(2,6,10,14); quarter(3,7,11,15)
        quarter(0,5,10,15); quarter(1,6,11,12); quarter(2,7,8,13); quarter(3,4,9,14)
    return [(a + b) & 0xffffffff for a, b in zip(x, state)]

EVALUATION = 6

def letter(seed, number):
    words = iter(chacha(struct.pack("<QQIIII", seed, number, 0, 0, 0, EVALUATION), 0))
    def below(bound):
        while True:
            product = (next(words) | next(words) << 32) * bound
            if product % 2**64 >= -bound % 2**64 % bound:
                return product >> 64
    choices = [0, 1, 2, 3]
    for last in (3, 2, 1):
        other = below(last + 1)
        choices[last], choices[other] = choices[other], choices[last]
    return "ABCD"[choices.index(0)]

print("".join(letter(0, number) for number in range(16)))
