"""Compiled loop over operations with times: does what `RotationState.follow` does, one by one."""

from ..compilation import jit
from ..operations import Operation
from ..times import NEVER

FILLED, LENGTH, GENERATION, FIRST, LAST, LOST, LATEST = range(7)
"""Place in the vector that carries the state of `RotationState` through the loop."""

INSERTIONS, SHIFTS, SHORTENED, OVERFILLED = range(7, 11)
"""Places in the same vector: counts of the call."""

WRITES, SPAN, OLD, SPANNED, SHORTEN, SIZE = range(11, 17)
"""Places of the policy in the same vector, and its length."""

OK, WINDOW_SHORTENED, RATE_EXCEEDED = range(3)
"""Codes of `PoolStatus`."""

_INSERT, _CHECK = int(Operation.INSERT), int(Operation.CHECK_AND_INSERT)
_SHIFT, _CLEAR = int(Operation.SHIFT), int(Operation.CLEAR)


@jit
def follow(codes, times, state, settled, overfull, turned, alive, status, guaranteed):
    """Take part in operations one after another.

    Parameters
    ----------
    codes, times : ndarray, shape (n,)
        As for `RotationState.follow`.
    state : ndarray of int64, shape (SIZE,)
    settled, overfull : ndarray, shape (slices,)
        As `RotationState` has them.
    turned, alive, status, guaranteed : ndarray, shape (n,)
        Get the columns of a `Passage`.
    """
    counting, over = _counting(settled, state), _overfull(overfull)
    for i in range(len(codes)):
        code, now = codes[i], times[i]
        while counting and now > settled[state[WRITES] + counting - 1] + state[SPAN]:
            counting -= 1
        fresh = state[LAST] != NEVER and now - state[LAST] <= state[SPAN]
        alive[i] = state[WRITES] + counting if fresh else 0
        status[i] = _status(now, state, settled, over)
        guaranteed[i] = _guaranteed(now, state)
        if code == _CLEAR:
            _clear(state, settled, overfull)
        elif code == _SHIFT:
            _turn(now, state, settled, overfull)
        elif code == _INSERT or code == _CHECK:
            turned[i] = _due(now, state, settled)
            if turned[i]:
                _turn(now, state, settled, overfull)
            _insert(now, state, overfull)
        if code == _CLEAR or code == _SHIFT or turned[i]:
            counting, over = _counting(settled, state), _overfull(overfull)
        elif state[FILLED] > state[LENGTH]:
            over = 0


@jit
def _overfull(overfull):
    """Position of the youngest slice that is overfull, -1 if none is."""
    for position in range(len(overfull)):
        if overfull[position]:
            return position
    return -1


@jit
def _counting(settled, state):
    """Slices that take no more and have a time."""
    count = 0
    for position in range(state[WRITES], len(settled)):
        count += settled[position] != NEVER
    return count


@jit
def _status(now, state, settled, over):
    if state[LOST] != NEVER and now - state[LOST] <= state[SPAN]:
        return WINDOW_SHORTENED
    if over < 0:
        return OK
    last = state[LAST] if over < state[WRITES] else settled[over]
    return RATE_EXCEEDED if now <= last + state[SPAN] else OK


@jit
def _guaranteed(now, state):
    if not state[SPANNED]:
        return -1
    if state[LOST] == NEVER:
        return state[SPAN]
    return min(state[SPAN], now - state[LOST] - 1)


@jit
def _out(now, state, settled):
    """Whether the oldest slice counts."""
    return settled[-1] != NEVER and now <= settled[-1] + state[SPAN]


@jit
def _due(now, state, settled):
    """Whether the ring turns before an insertion."""
    full = state[FILLED] >= state[LENGTH]
    old = state[FILLED] > 0 and now >= state[FIRST] + state[OLD]
    if not _out(now, state, settled):
        return full or old
    return full and state[SHORTEN] == 1


@jit
def _turn(now, state, settled, overfull):
    """`RotationState.shift`."""
    if state[SPANNED] and _out(now, state, settled):
        state[LOST] = settled[-1]
        state[SHORTENED] += 1
    settled[state[WRITES] - 1] = state[LAST]
    for position in range(len(settled) - 1, 0, -1):
        settled[position], overfull[position] = settled[position - 1], overfull[position - 1]
    settled[0], overfull[0] = NEVER, False
    state[LATEST] = now
    state[FILLED] = 0
    state[LENGTH] = state[GENERATION]
    state[SHIFTS] += 1


@jit
def _insert(now, state, overfull):
    if state[FILLED] == 0:
        state[FIRST] = now
    state[FILLED] += 1
    if state[FILLED] > state[LENGTH]:
        state[OVERFILLED] += 1
        overfull[: state[WRITES]] = True
    state[INSERTIONS] += 1
    state[LAST] = state[LATEST] = now


@jit
def _clear(state, settled, overfull):
    """`RotationState.clear`."""
    state[LENGTH] = state[GENERATION]
    state[FILLED] = 0
    state[FIRST] = state[LAST] = state[LOST] = state[LATEST] = NEVER
    settled[:] = NEVER
    overfull[:] = False
