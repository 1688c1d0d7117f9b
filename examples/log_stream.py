"""Remove repeated messages from a log: a message passes once in ten minutes.

    tail -F app.log | python log_stream.py

Each line starts with an ISO 8601 time. Messages that differ only in numbers count as equal.
"""

import re
import sys
from datetime import datetime

from lately import GEBF


class LogStream:
    """Decides which lines of a log to show: a message passes only once within `span`.

    `rate` is the maximum number of different messages per second.
    """

    def __init__(self, span="10min", rate=100):
        self._recent = GEBF.for_span(span, fpr=1e-6, rate=rate)
        self.dropped = 0

    def shows(self, line):
        """Return False if an equal message passed within the span before this line, else True."""
        time, _, message = line.partition(" ")
        message = re.sub(r"\d+", "#", message)
        # Repeats do not restart the span, so that a persistent fault is shown every ten minutes.
        seen = self._recent.check_and_insert(message, datetime.fromisoformat(time), refresh=False)
        self.dropped += seen
        return not seen


def main():
    """Copy the lines of standard input that are not repeats to standard output."""
    log = LogStream()
    for line in sys.stdin:
        if log.shows(line):
            print(line, end="")
    print(f"{log.dropped:,} repeats dropped", file=sys.stderr)


if __name__ == "__main__":
    main()
