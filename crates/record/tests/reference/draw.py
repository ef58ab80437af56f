# ChaCha8 keyed as `Key` does: seed 1, task 3, step 2, sample 4, turn 5, purpose 3; position 6.
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
words = chacha(struct.pack("<QQIIII", 1, 3, 2, 4, 5, 3), 6)
print(words[0] | words[1] << 32)
