"""Compare the speed of filters with `SET NX PX` in a Redis server on a Unix socket.

On Debian, the package redis-server contains the server. The program prints a table with one
row for Redis and one for each filter. A row shows the CPU time (including the server's) and the
wall-clock time per key, in microseconds and as medians of 5 rounds, and the bytes per key.
"""

import socket
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from lately import GEBF

KEYS = 100_000
ROUNDS = 5


class Redis:
    """A Redis server that this program starts and that writes no files, and a connection to it."""

    def __init__(self, folder):
        path = Path(folder) / "socket"
        options = ("--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no")
        self.process = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)
        while not path.exists():
            time.sleep(0.01)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))

    def call(self, *words):
        """Send a command to the server; return the raw reply."""
        parts = [b"$%d\r\n%b\r\n" % (len(word), word) for word in map(str.encode, words)]
        self._socket.sendall(b"*%d\r\n%b" % (len(parts), b"".join(parts)))
        return self._socket.recv(1 << 16)

    def figure(self, section, name):
        """Return the number `name` from a section of the output of the command INFO."""
        lines = self.call("INFO", section).decode().split("\r\n")
        return float(next(line.partition(":")[2] for line in lines if line.startswith(f"{name}:")))

    def cpu(self):
        """Return the CPU time that the server has used, in seconds."""
        return self.figure("cpu", "used_cpu_user") + self.figure("cpu", "used_cpu_sys")


def measure(name, ask, held, cpu=lambda: 0.0):
    """Print a table row: the times that `ask` takes per key, and the memory in bytes per key."""
    times = []
    for number in range(ROUNDS):
        keys = [f"key:{number}:{index}" for index in range(KEYS // ROUNDS)]
        before = time.process_time() + cpu(), time.perf_counter()
        ask(keys)
        after = time.process_time() + cpu(), time.perf_counter()
        times.append([1e6 * (b - a) / len(keys) for a, b in zip(before, after, strict=True)])
    used, wall = (statistics.median(values) for values in zip(*times, strict=True))
    print(f"| {name} | {used:.2f} | {wall:.2f} | {held() / KEYS:.1f} |", flush=True)


def one_by_one(model):
    """Return a function that passes keys to a filter one at a time."""
    return lambda keys: [model.check_and_insert(key) for key in keys]


def main():
    print("| one key | CPU, us | wall, us | bytes per key |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        redis = Redis(folder)
        empty = redis.figure("memory", "used_memory")
        measure(
            "Redis, `SET key 1 NX PX 600000`",
            lambda keys: [redis.call("SET", key, "1", "NX", "PX", "600000") for key in keys],
            lambda: redis.figure("memory", "used_memory") - empty,
            redis.cpu,
        )
        redis.process.terminate()
        redis.process.wait()
    for fpr in (1e-2, 1e-6):
        counted = GEBF.for_window(KEYS, fpr)
        measure(f"`GEBF.for_window`, rate {fpr:g}", one_by_one(counted), lambda m=counted: m.nbytes)
        counted = GEBF.for_window(KEYS, fpr)
        measure("the same, lists", counted.check_and_insert, lambda m=counted: m.nbytes)
    timed = GEBF.for_span("10min", 1e-6, rate=KEYS / 600)
    measure("`GEBF.for_span`, rate 1e-06", one_by_one(timed), lambda: timed.nbytes)
    timed = GEBF.for_span("10min", 1e-6, rate=KEYS / 600)
    measure("the same, lists", timed.check_and_insert, lambda: timed.nbytes)


if __name__ == "__main__":
    main()
