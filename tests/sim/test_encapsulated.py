"""Frames in tunnels as another project reads them: scapy finds the packet in their middle."""

from importlib import import_module

from scapy.layers.inet import IP
from scapy.layers.l2 import Ether

from lately.sim.bench.packets import INNER, LAYER2, TUNNELS

for layer in ("layers.inet6", "layers.ppp", "layers.vxlan", "contrib.erspan", "contrib.geneve",
              "contrib.gtp", "contrib.mpls"):  # fmt: skip
    import_module(f"scapy.{layer}")  # binds its headers to those around them

UNKNOWN = {
    "three labels", "pseudo-wire of addresses like IP", "PPPoE of MPLS", "tag 9200",
    "tag 9300 before 88a8",
    *(f"{name}{version}" for name in ("GRE with routing", "ERSPAN III of IP",
                                      "GTP-U with extensions") for version in ("", ", IPv6")),
}  # fmt: skip
"""Frames that scapy does not read to their end."""


def innermost(frame):
    """Return the bytes from the last header of IPv4 on."""
    layer, inner = Ether(frame), b""
    while layer:
        if isinstance(layer, IP):
            inner = layer.original
        layer = layer.payload
    return inner


def test_scapy_finds_the_inner_packet():
    frames = {**LAYER2, **TUNNELS}
    other = {name for name, frame in frames.items() if not innermost(frame).startswith(INNER)}
    assert other == UNKNOWN
