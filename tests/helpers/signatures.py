"""Signatures of units that stand for others."""

from lately.hdl.interface import Operation, UnitSignature


def signature(*, key=20, tag=8, ages=5, request=(), result=(), **options):
    """Return the signature of units with these widths and further fields."""
    return UnitSignature(
        {"key": key, "operation": Operation, "tag": tag, **dict(request)},
        {"seen": 1, "age": range(ages), **dict(result), "tag": tag},
        **options,
    )
