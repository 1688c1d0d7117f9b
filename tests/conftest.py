"""What all tests have in common: they do not depend on how they were started."""

import gc
import os
import random
import signal
import sys
from pathlib import Path

from hypothesis import settings

# A shell starts background jobs with Ctrl-C ignored, and children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "pthread_sigmask"):
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

# Elaborated designs are many objects that live long: a tenth of the time went into looking for
# garbage among them.
gc.set_threshold(200_000, 50, 100)

# Programs that tests start find papers and campaigns, wherever the tests were started.
ROOT = str(Path(__file__).parents[1])
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (ROOT, os.environ.get("PYTHONPATH"))))

# Workers and hundreds of programs read compiled modules. Without them, each compiles the sources.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Tables have the width of a pipe, whatever terminal the tests were started from.
os.environ.pop("COLUMNS", None)

# Steps are many operations; how long they take depends on the machine.
for name, examples in (("repeatable", 25), ("random", 300), ("long", 20_000)):
    settings.register_profile(
        name, derandomize=name == "repeatable", max_examples=examples, deadline=None
    )
settings.load_profile("repeatable")


def pytest_addoption(parser):
    parser.addoption("--shuffle", metavar="SEED", help="run files, and tests in them, in any order")


def pytest_configure(config):
    options = config.option
    # Here and not in each worker, as all are to have the same.
    if options.hypothesis_profile in ("random", "long") and options.hypothesis_seed is None:
        options.hypothesis_seed = str(random.SystemRandom().randrange(1 << 32))


def pytest_report_header(config):
    if config.option.hypothesis_seed is not None:
        return f"property tests: --hypothesis-seed={config.option.hypothesis_seed}"
    return "property tests: repeatable"


def pytest_collection_finish():
    # Nor is garbage looked for among modules and tests, which stay to the end.
    gc.freeze()


def pytest_collection_modifyitems(config, items):
    if (seed := config.option.shuffle) is not None:
        order = random.Random(seed)
        # Files stay whole, so that what a file shares is made once.
        rank = {path: order.random() for path in dict.fromkeys(item.path for item in items)}
        order.shuffle(items)
        items.sort(key=lambda item: rank[item.path])
    else:
        # What takes long first, so that workers end together.
        rank = {"sim": 0, "boards": 1, "hdl": 2}
        items.sort(key=lambda item: rank.get(item.path.parent.name, 3))
