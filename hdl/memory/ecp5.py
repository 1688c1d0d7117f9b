"""The DP16KD block RAM of Lattice ECP5."""

from amaranth.hdl import Cat, ClockSignal, Const, Instance


def dp16kd(a, b, *, widths, registered="A", **connected):
    """Instantiate a DP16KD; `registered` names the ports with output registers."""
    a, b = (Cat(address, Const(0, 14))[:14] for address in (a, b))
    ports = {f"i_ADA{index}": a[index] for index in range(14)}
    ports |= {f"i_ADB{index}": b[index] for index in range(14)}
    ports |= {f"i_DI{port}{index}": 0 for port in "AB" for index in range(18)}
    ports |= {f"i_CS{port}{index}": 0 for port in "AB" for index in range(3)}
    for port in "AB":
        ports |= {f"i_CLK{port}": ClockSignal(), f"i_CE{port}": 1, f"i_OCE{port}": 1}
        ports[f"i_RST{port}"] = 0
    ports |= connected
    return Instance(
        "DP16KD",
        p_DATA_WIDTH_A=widths[0],
        p_DATA_WIDTH_B=widths[1],
        **{f"p_REGMODE_{port}": "OUTREG" if port in registered else "NOREG" for port in "AB"},
        p_WRITEMODE_A="NORMAL",
        p_WRITEMODE_B="NORMAL",
        p_RESETMODE="SYNC",
        p_GSR="DISABLED",
        p_CSDECODE_A="0b000",
        p_CSDECODE_B="0b000",
        **ports,
    )
