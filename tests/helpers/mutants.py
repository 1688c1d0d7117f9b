"""Components with a defect, which tests must find."""

import inspect
import sys


def broken(component, old, new):
    """Return a component with a piece of the source of its module replaced."""
    source = inspect.getsource(sys.modules[component.__module__])
    assert source.count(old) == 1
    namespace = {
        "__name__": component.__module__,
        "__package__": component.__module__.rpartition(".")[0],
    }
    exec(source.replace(old, new), namespace)
    return namespace[component.__name__]
