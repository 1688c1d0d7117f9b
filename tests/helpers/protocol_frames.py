"""Frames with a number, and frames of many protocols as scapy makes them."""

from capture_files import block, interface, option, packet, section
from scapy.contrib.mpls import MPLS
from scapy.contrib.ospf import OSPF_Hdr, OSPF_Hello
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6, IPv6ExtHdrFragment
from scapy.layers.l2 import ARP, GRE, Dot1AD, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from lately.sim.bench.packets import ethernet, ip4, udp

LAYERS = (
    IP() / TCP(), IP() / UDP(), IP(ttl=1) / ICMP(), IPv6() / UDP(), IPv6() / ICMPv6EchoRequest(),
    IPv6() / IPv6ExtHdrFragment(offset=9), ARP(), IP(proto=89) / OSPF_Hdr() / OSPF_Hello(),
    Dot1Q(vlan=7) / IP() / UDP(), Dot1AD(vlan=7) / Dot1Q(vlan=8) / Dot1Q(vlan=9) / IP() / UDP(),
    Dot1Q(vlan=7, prio=5, dei=1) / IPv6() / TCP(), Dot1Q(vlan=7) / MPLS(s=1) / IP() / UDP(),
    IP() / GRE() / IP() / UDP(), IP() / UDP() / VXLAN() / Ether() / IP() / UDP(),
    # Malformed: a version that is none of its EtherType, and a length beyond the end.
    IPv6(version=5) / UDP(), IP(len=1000) / UDP(),
)  # fmt: skip
PROTOCOLS = [
    bytes(Ether(dst="02:00:00:00:00:01", src="02:00:00:00:00:02") / layers / Raw(bytes([at] * 40)))
    for at, layers in enumerate(LAYERS)
]


def frame(number, size=30):
    """An Ethernet frame of UDP that is equal to no other with another number."""
    return ethernet(0x0800, ip4(udp(number.to_bytes(4, "big") + bytes(size)), number=number))


def timed_capture(packets):
    """A pcapng file of (time or None, number); packets without a time are in simple blocks."""
    blocks = [section(), interface(option(9, b"\x09"))]
    for time, number in packets:
        content = frame(number)
        simple = block(3, len(content).to_bytes(4, "little") + content)
        blocks.append(simple if time is None else packet(time, content))
    return b"".join(blocks)
