"""Remove items seen lately from asynchronous streams.

One key takes less than a microsecond, so the filter runs in the event loop. A large batch runs in a
thread: it releases the interpreter's lock, and the event loop continues.
"""

import asyncio

LARGE = 10_000


async def unique(items, filter, key=lambda item: item):
    """Yield the items of an asynchronous iterable whose key was not seen lately."""
    async for item in items:
        if not filter.check_and_insert(key(item)):
            yield item


async def unique_batches(batches, filter):
    """Yield batches (arrays of keys) without the keys that were seen lately."""
    async for batch in batches:
        if len(batch) < LARGE:
            seen = filter.check_and_insert(batch)
        else:
            seen = await asyncio.to_thread(filter.check_and_insert, batch)
        yield batch[~seen]
