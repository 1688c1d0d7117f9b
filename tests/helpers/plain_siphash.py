"""SipRound in plain Python, from the paper alone."""

MASK = (1 << 64) - 1


def plain_round(v):
    """SipRound, as the paper's figure 2.1 has it."""
    a, b, c, d = v
    a, c = a + b & MASK, c + d & MASK
    b, d = turn(b, 13) ^ a, turn(d, 16) ^ c
    a = turn(a, 32)
    c, a = c + b & MASK, a + d & MASK
    b, d = turn(b, 17) ^ c, turn(d, 21) ^ a
    return a, b, turn(c, 32), d


def turn(value, bits):
    return (value << bits | value >> 64 - bits) & MASK
