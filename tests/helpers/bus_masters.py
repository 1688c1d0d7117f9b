"""Masters of the buses behind which an exported unit's registers are, for Amaranth's simulator."""

import random


class Axi4LiteMaster:
    """Accesses one after another; address and data of a write come in any order, with pauses."""

    def __init__(self, ctx, unit, seed=1):
        self._ctx, self._unit, self._choose = ctx, unit, random.Random(seed)

    def _set(self, name, value):
        self._ctx.set(getattr(self._unit, f"s_axil_{name}"), value)

    def _get(self, name):
        return self._ctx.get(getattr(self._unit, f"s_axil_{name}"))

    async def access(self, address, data=None, strobe=15):
        """Return whether it failed, and what was read."""
        if data is None:
            requests = {"ar": {"addr": address}}
        else:
            requests = {"aw": {"addr": address}, "w": {"data": data, "strb": strobe}}
        back = "r" if data is None else "b"
        starts = {channel: self._choose.randrange(4) for channel in requests}
        clock, ready = 0, False
        while True:
            for channel in [name for name, start in starts.items() if start == clock]:
                self._set(f"{channel}valid", 1)
                for part, value in requests[channel].items():
                    self._set(f"{channel}{part}", value)
            ready = self._choose.random() < 0.5
            self._set(f"{back}ready", ready)
            gone = [name for name in starts if starts[name] <= clock and self._get(f"{name}ready")]
            came = ready and self._get(f"{back}valid")
            if came:
                result = (
                    self._get(f"{back}resp") == 2,
                    self._get("rdata") if data is None else None,
                )
                assert self._get(f"{back}resp") in (0, 2)
            await self._ctx.tick()
            for channel in gone:
                self._set(f"{channel}valid", 0)
                starts[channel] = 1 << 30
            if came:
                self._set(f"{back}ready", 0)
                return result
            clock += 1
            assert clock < 100


class WishboneMaster:
    """Accesses one after another, as a classic master or as a pipelined one."""

    def __init__(self, ctx, unit, *, pipelined=False):
        self._ctx, self._unit, self._pipelined = ctx, unit, pipelined

    def _set(self, **values):
        for name, value in values.items():
            self._ctx.set(getattr(self._unit, f"wb_{name}_i"), value)

    def _get(self, name):
        return self._ctx.get(getattr(self._unit, f"wb_{name}_o"))

    async def access(self, address, data=None, strobe=15):
        """Return whether it failed, and what was read."""
        self._set(cyc=1, stb=1, we=data is not None, adr=address >> 2, sel=strobe, dat=data or 0)
        for _ in range(100):
            answers = self._get("ack") + self._get("err")
            stalled, failed, word = self._get("stall"), self._get("err"), self._get("dat")
            assert answers < 2
            await self._ctx.tick()
            if self._pipelined and not stalled:
                self._set(stb=0)
            if answers:
                self._set(cyc=0, stb=0)
                if self._pipelined is False:
                    await self._ctx.tick()
                return bool(failed), None if data is not None else word
        raise AssertionError("no answer")


class AvalonHost:
    """Accesses one after another; the next may be asked for with the answer."""

    def __init__(self, ctx, unit):
        self._ctx, self._unit = ctx, unit

    def _set(self, **values):
        for name, value in values.items():
            self._ctx.set(getattr(self._unit, f"avs_{name}"), value)

    def _get(self, name):
        return self._ctx.get(getattr(self._unit, f"avs_{name}"))

    async def access(self, address, data=None, strobe=15):
        """Return whether it failed, and what was read."""
        reads = data is None
        self._set(read=reads, write=not reads, address=address >> 2, byteenable=strobe,
                  writedata=data or 0)  # fmt: skip
        taken = False
        for _ in range(100):
            waits = self._get("waitrequest")
            came = [self._get(name) for name in ("readdatavalid", "writeresponsevalid")]
            failed, word = self._get("response") == 2, self._get("readdata")
            # The answer to an access before may come with this one.
            if taken and any(came):
                assert came == [reads, not reads]
                return failed, word if reads else None
            await self._ctx.tick()
            if not waits:
                taken = True
                self._set(read=0, write=0)
        raise AssertionError("no answer")


MASTERS = {
    "avalon-mm": AvalonHost,
    "axi4-lite": Axi4LiteMaster,
    "wishbone": WishboneMaster,
    "pipelined": lambda ctx, unit: WishboneMaster(ctx, unit, pipelined=True),
}
