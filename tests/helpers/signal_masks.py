"""What a process of a cluster is told of signals."""

import signal


def hears_interrupts(_):
    """Return whether an interrupt of the whole group reaches the process that calls this."""
    return signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
