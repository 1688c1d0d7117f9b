"""Cost of filters on a device: block RAMs, LUTs and flip-flops."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ..boards.flow.devices import Device


Bools = NDArray[np.bool_]
"""Truth of a statement for each filter, shape (n,)."""

Floats = NDArray[np.float64]
"""Numbers of many filters, shape (n,)."""

Ints = NDArray[np.int64]
"""Integers of many filters, shape (n,)."""

TAG_BITS = 8
"""Width of the tag in the measured units."""


@dataclass(frozen=True)
class Area:
    """Resources of a device that filters use, one array element per filter.

    Attributes
    ----------
    bram : ndarray of int, shape (n,)
        Block RAMs; exact.
    lut, ff : ndarray of float, shape (n,)
        Predicted LUTs and flip-flops.
    lut_error, ff_error : float
        Largest relative error of the predictions among the measured units.
    """

    bram: Ints
    lut: Floats
    ff: Floats
    lut_error: float
    ff_error: float

    def share(self, device: "Device") -> Floats:
        """Return the cost on a device, shape (n,): the sum of the shares of block RAMs and LUTs."""
        return self.bram / device.bram + self.lut / device.lut

    def needs(self, device: "Device") -> dict[str, tuple[Bools, str]]:
        """Return, for each resource, which filters exceed the device, and the need of the first.

        The filters are a mask of shape (n,), and the need is a text. LUTs and flip-flops include
        the error of the prediction.
        """
        lut, ff = self.lut * (1 + self.lut_error), self.ff * (1 + self.ff_error)
        return {
            f"block RAMs of {device.bram:,}": (self.bram > device.bram, f"{self.bram[0]:,}"),
            f"LUTs of {device.lut:,}": (lut > device.lut, f"up to {lut[0]:,.0f}"),
            f"flip-flops of {device.ff:,}": (ff > device.ff, f"up to {ff[0]:,.0f}"),
        }

    def fits(self, device: "Device") -> Bools:
        """Return which filters fit on the device, with the errors of predictions; shape (n,)."""
        scarce = [beyond for beyond, _ in self.needs(device).values()]
        return ~np.logical_or.reduce(scarce)

    def rounded(self) -> dict[str, int]:
        """Return the figures of the first filter as integers."""
        return {name: round(float(getattr(self, name)[0])) for name in ("bram", "lut", "ff")}


@cache
def models() -> Mapping[str, Any]:
    """Return coefficients and errors by family of devices, and by model of filters."""
    text = Path(__file__).with_name("costs.json").read_text("utf-8")
    return json.loads(text)


def predicted(
    model: str, device: "Device", features: Mapping[str, Any], blocks: Any, luts: Any = 0
) -> Area | None:
    """Return the area that a model predicts; None if there are no coefficients.

    Parameters
    ----------
    model : str
        Name of the model in ``costs.json``.
    device : Device
    features : mapping of str to float or ndarray of float, shape (n,)
        Quantities from which LUTs and flip-flops are predicted.
    blocks, luts : int or ndarray of int, shape (n,)
        Block RAMs, and LUTs that no coefficient covers.
    """
    fitted = models().get(device.family, {}).get(model)
    if fitted is None:
        return None
    lut, ff = (
        sum(fitted[kind][name] * values for name, values in features.items())
        for kind in ("lut", "ff")
    )
    bram, lut, ff = (np.atleast_1d(figure) for figure in (blocks, lut + luts, ff))
    return Area(bram, lut, ff, fitted["lut_error"], fitted["ff_error"])
