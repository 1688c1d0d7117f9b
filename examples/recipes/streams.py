"""Remove items seen lately from asynchronous streams.

A single key takes less than a microsecond, so the filter is called in the event loop. For a large
batch, the filter is called in a thread. There it releases the interpreter's lock, so that the event
loop continues.
"""

import asyncio

LARGE = 10_000


async def unique(items, filter, key=lambda item: item):
    """Yield the items of an asynchronous iterable whose keys were not seen lately."""
    async for item in items:
        if not filter.check_and_insert(key(item)):
            yield item


async def unique_batches(batches, filter):
    """Yield each batch, an array of keys, without the keys that were seen lately."""
    async for batch in batches:
        if len(batch) < LARGE:
            seen = filter.check_and_insert(batch)
        else:
            seen = await asyncio.to_thread(filter.check_and_insert, batch)
        yield batch[~seen]
