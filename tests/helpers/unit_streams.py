"""Both streams of a unit of one lane in Amaranth's simulator, with pauses by chance."""

import random
from dataclasses import dataclass, field
from functools import partial

from simulation import simulate


@dataclass
class UnitStreams:
    """Requests to a unit, and what comes of them.

    Attributes
    ----------
    unit : Component
    taken : sequence of str
        Fields of a result that are kept; the tag is compared with that of the request.
    seed : int
    idle, stall : float
        Share of the clocks in which nothing is sent; in which nothing is taken.
    results : list of tuple
    clocks, first : int
        Clocks so far; the one in which the first result was taken.
    """

    unit: object
    taken: tuple
    seed: int = 1
    idle: float = 0.0
    stall: float = 0.0
    results: list = field(default_factory=list)
    clocks: int = 0
    first: int | None = None

    def run(self, requests, *others, finish=None):
        """Perform requests, each a mapping of fields or a number of clocks without any.

        Parameters
        ----------
        others : callable
            Further test benches in the background.
        finish : callable, optional
            Called with the context, 40 clocks after the last result.
        """
        count = sum(not isinstance(request, int) for request in requests)
        patience = 50 * count + 20_000 + sum(pause for pause in requests if isinstance(pause, int))
        take = partial(self._take, count, patience, finish)
        simulate(self.unit, take, background=[partial(self._drive, requests), *others])
        return self.results

    async def _drive(self, requests, ctx):
        choose, unit, tag = random.Random(self.seed), self.unit, 0
        for request in requests:
            if isinstance(request, int):
                await ctx.tick().repeat(request)
                continue
            while choose.random() < self.idle:
                await ctx.tick()
            for name, value in {**request, "tag": tag % 256}.items():
                ctx.set(getattr(unit.i.p, name), value)
            ctx.set(unit.i.valid, 1)
            await ctx.tick().until(unit.i.ready)
            ctx.set(unit.i.valid, 0)
            tag += 1

    async def _take(self, count, patience, finish, ctx):
        choose, o = random.Random(self.seed + 1), self.unit.o
        while len(self.results) < count:
            ctx.set(o.ready, choose.random() >= self.stall)
            _, _, valid, ready, tag, *values = await ctx.tick().sample(
                o.valid, o.ready, o.p.tag, *(getattr(o.p, name) for name in self.taken)
            )
            self.clocks += 1
            if valid and ready:
                self.first = self.clocks if self.first is None else self.first
                assert tag == len(self.results) % 256
                self.results.append(tuple(values))
            assert self.clocks < patience, "the unit hangs"
        await ctx.tick().repeat(40)
        if finish:
            finish(ctx)
