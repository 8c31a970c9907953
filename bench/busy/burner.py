"""Processes that keep a core busy each, and how much of the machine they get. Linux and macOS;
standard library only."""

import contextlib
import dataclasses
import os
import subprocess
import sys
import time

# It ends with the process that started it, whatever becomes of that one: it has lost its parent
# then.
PROGRAM = """
import os, sys
parent, x = int(sys.argv[1]), 1.0
while os.getppid() == parent:
    for _ in range(100_000):
        x = x * 1.0000001 + 1e-9
        if x > 2:
            x = 1.0
"""


@dataclasses.dataclass
class Metered:
    """Cores that the burners had on average while they were metered; None where the system does not
    tell."""

    cores: float | None = None


def cpu_seconds(pid):
    """Processor time that a process has used, None where the system does not tell
    (proc_pid_stat(5))."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return (int(fields[14 - 3]) + int(fields[15 - 3])) / os.sysconf("SC_CLK_TCK")


class Burners:
    """A context in which so many processes compute without end, each on a core of its own if
    pinned."""

    def __init__(self, count, pinned=False):
        self.count, self.pinned, self.processes = count, pinned, []

    def __enter__(self):
        try:
            for number in range(self.count):
                self.processes.append(self.start(number))
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self, number):
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(os.getpid())],
            stdin=subprocess.DEVNULL,
            start_new_session=True)
        if self.pinned:
            cores = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(process.pid, {cores[-1 - number % len(cores)]})
        return process

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
        self.processes = []

    def total(self):
        used = [cpu_seconds(p.pid) for p in self.processes]
        return None if None in used else sum(used)

    @contextlib.contextmanager
    def metered(self):
        """Yield a Metered that holds, after the with block, what the burners had during it."""
        result = Metered()
        before, begin = self.total(), time.monotonic()
        yield result
        after, elapsed = self.total(), time.monotonic() - begin
        if before is not None and after is not None and elapsed > 0:
            result.cores = (after - before) / elapsed
