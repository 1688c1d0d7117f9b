"""Rules for repeated packets: copies are dropped, and retransmitted packets pass.

If the policy is "last-seen" and no property must differ, the filter decides which repeats are
copies, and a `CopyTable` only enforces the window in packets. In all other cases the table decides,
by an exact comparison of digests:

- A repeat is a copy only if a packet with the same digest is remembered. With "last-seen" every
  packet is remembered; with "first-seen", every packet that is not a copy. A packet that repeats
  forever passes once with "last-seen", and once in each span with "first-seen".
- A packet is remembered for `span` nanoseconds and `window` packets, both inclusive.
- If a property must differ, a repeat is a copy only if it differs in this property from the last
  packet with the same digest that was not a copy. All other repeats are retransmissions, and pass.
- A new packet is mistaken for a copy if its 64-bit digest equals the digest of another packet, with
  a probability of 2**-64 for each remembered packet. A copy passes as a retransmission if different
  tags or layer 2 headers have the same digest, again with a probability of 2**-64.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..compilation import core
from ..results import Answers, Words
from ..times import Times
from .comparison import IP4_TTL, IP6_HOP_LIMIT, Comparison, Field, FieldError
from .packet_digest import packet_digests
from .packet_layers import Buffer, Packets, Version, find_headers

POLICIES = ("last-seen", "first-seen")  # which packets are remembered: all, or all except copies
SCOPES = ("any", "same", "other")  # origin of the earlier packet: any, the same, or another
# origins of a packet; "file" is the number of the capture file
ORIGINS = ("interface", "vlan", "file")
PROPERTIES = (*ORIGINS, "ttl", "layer2")  # properties that a rule can require to differ
FOR_EVER = 1 << 62  # longer than any stream, in nanoseconds
_SPREAD = 0x9E3779B97F4A7C15


@dataclass(frozen=True, kw_only=True)
class CopyRule:
    """Rule that decides which repeats of a packet are copies."""

    policy: str = POLICIES[0]
    differs: str | None = None  # property that must differ, one of `PROPERTIES`
    scope: str = SCOPES[0]  # "other": the origin must differ
    by: str = ORIGINS[0]

    def __post_init__(self) -> None:
        for name, known in (
            ("policy", POLICIES), ("scope", SCOPES), ("by", ORIGINS),
            ("differs", (*PROPERTIES, None)),
        ):  # fmt: skip
            if getattr(self, name) not in known:
                names = ", ".join(str(item) for item in known)
                raise FieldError(f"{name}: must be one of {names}, not {getattr(self, name)!r}")
        if self.differs and self.scope == "other":
            raise FieldError(
                "scope: must be 'any' or 'same' if a property must differ, not 'other'"
            )

    @property
    def differing(self) -> str | None:
        """Property in which a copy must differ from the original, or None if there is none."""
        return self.by if self.scope == "other" else self.differs

    @property
    def exact(self) -> bool:
        """Whether a `CopyTable` decides which repeats are copies; otherwise the filter decides."""
        return self.differing is not None or self.policy == "first-seen"

    def check(self, comparison: Comparison) -> None:
        """Raise a `FieldError` if the property that must differ is among the compared fields."""
        name = self.differing
        if name in (None, "interface", "file"):
            return
        if comparison.fields & (Field.FRAME | Field[str(name).upper()]):
            raise FieldError(f"differs: {name} is compared, so it cannot differ in copies")


def properties(
    name: str,
    buffer: Buffer,
    packets: Packets,
    numbers: NDArray[np.int64],
    comparison: Comparison,
    secret: int = 0,
) -> Words:
    """Map a property of each of n packets to a number; equal values have the same number."""
    if name in ("interface", "file"):
        return numbers.astype(np.uint64)
    if name == "layer2":
        begin = find_headers(buffer, packets, *comparison.search)[1]
        heads = np.ascontiguousarray([packets[0], begin, begin, np.full_like(begin, -1)])
        return packet_digests(buffer, heads, secret=secret).values
    if name == "ttl":
        version, begin = find_headers(buffer, packets, *comparison.search)[:2]
        at = packets[0] + begin + np.where(version == Version.IP4, IP4_TTL, IP6_HOP_LIMIT)
        known = np.flatnonzero(version >= Version.IP4)
        values = np.zeros(len(version), np.uint64)
        values[known] = buffer[at[known]]
        return values
    # The VLAN identifiers are part of the digest of any message.
    rest = Comparison(Field.VLAN, *comparison.search, first=1)
    digests = packet_digests(buffer, packets, rest, secret=secret)
    # A packet that is compared as a whole frame has no such property.
    return np.where(digests.versions == 0, np.uint64(0), digests.values)


def scoped(digests: Words, origins: Words) -> Words:
    """Combine digests with origins, so that equal packets from different origins are distinct."""
    return digests ^ origins * np.uint64(_SPREAD)


class CopyTable:
    """Detects copies by the digests of at least the last `capacity` packets."""

    def __init__(self, window: int, span: int, capacity: int, rule: CopyRule) -> None:
        self._window, self._span = window, span if rule.exact else FOR_EVER
        self._exact, self._refresh = rule.exact, rule.policy == "last-seen"
        self._differs = rule.differing is not None
        self._packets = 0
        rows = 1 << (2 * capacity - 1).bit_length()
        self._half = rows // 2
        # For each digest: packet number, time and property.
        self._new: dict[int, tuple[int, int, int]] = {}
        self._old: dict[int, tuple[int, int, int]] = {}
        self._core = core()
        if self._core is not None:
            self._tables = np.zeros((2, rows, 4), np.int64), np.zeros(2, np.int64)

    def judge(
        self, digests: Words, seen: Answers, elapsed: Times, values: Words
    ) -> NDArray[np.int64]:
        """Set `seen` to False for packets that are not copies; all arrays have shape (n,).

        `elapsed` holds the nanoseconds since the first packet, which must not decrease. The result
        holds, for each packet, the number of the remembered packet that has the same digest.
        Packets are numbered from 1, and 0 means that no such packet is remembered.
        """
        first = self._packets + 1
        self._packets += len(digests)
        numbers = np.zeros(len(digests), np.int64)
        if self._core is not None:
            flags = self._exact, self._differs, self._refresh
            limits = first, self._window, self._span, *flags
            self._core.judge_copies(digests, seen, elapsed, values, numbers, limits, *self._tables)
            return numbers
        rows = zip(digests.tolist(), elapsed.tolist(), values.tolist(), strict=True)
        for number, (digest, time, value) in enumerate(rows, first):
            row, at = self._new.get(digest), number - first
            if row is None and seen[at]:
                row = self._old.get(digest)
            copy, kept = bool(seen[at]) and not self._exact, value
            if row is not None:
                near = number - row[0] <= self._window and time - row[1] <= self._span
                copy = bool(seen[at]) and near and not (self._differs and row[2] == value)
                kept = row[2] if copy else value
                numbers[at] = row[0]
            seen[at] = copy
            if not copy or self._refresh:
                self._new[digest] = number, time, kept
            if len(self._new) >= self._half:
                self._old, self._new = self._new, {}
        return numbers
