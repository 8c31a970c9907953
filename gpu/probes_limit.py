"""The driver's own limit of what a control group holds, which weir agent sets as root."""

import os
import time

from matrix import gib
from outside import NO_LIMIT, Unavailable
from outcome import Skip
from probe import probe

GIB = 1 << 30
LIMIT = 2 * GIB
GROUPS = "/sys/fs/cgroup"


class Group:
    """A control group of its own, and how a program gets into it."""

    def __init__(self, host):
        self.fake = host.fake
        self.path = os.path.join(host.scratch if host.fake else GROUPS, f"weir-check-{os.getpid()}")
        if not host.fake and (os.geteuid() or not os.path.exists(GROUPS + "/cgroup.controllers")):
            raise Skip("needs root, and control groups of version 2 at " + GROUPS)

    def __enter__(self):
        os.mkdir(self.path)
        return self

    def __exit__(self, *_):
        for _ in range(100):  # the kernel may not have done with the processes
            try:
                return os.rmdir(self.path)
            except OSError:
                time.sleep(0.05)
        return None

    def argv(self, argv):
        if self.fake:
            return ["env", "WEIR_FAKE_CGROUP=" + self.path, *argv]
        return ["sh", "-c", f'echo $$ >{self.path}/cgroup.procs && exec "$@"', "sh", *argv]


def held(host, argv):
    """What a program gets until it is refused, by itself and by the management library."""
    host.nvml().settled()
    with host.nvml().peak() as seen:
        r = host.staged(argv, lambda p, stage: seen.look())
    return {**r, "outside_peak_bytes": seen.peak - seen.base}


@probe("facts: driver limit",
       ["own-limit-holds", "own-limit-total", "own-limit-back", "own-limit-goes"], needs=30)
def limit(host, found):
    nvml = host.nvml()
    fill = host.workload("driver", "memory")
    if host.fake:
        os.environ["WEIR_FAKE_LIMITS"] = "0"
    try:
        with Group(host) as group:
            nvml.limit(group.path, LIMIT)
            r = held(host, group.argv(fill))
            most = r["outside_peak_bytes"]
            found.values.update(limited=r)
            found.tell("own-limit-holds", r["error"] == 2 and LIMIT // 2 < most <= LIMIT,
                       f"{gib(most)} held of {gib(LIMIT)}, then error {r['error']}")
            found.tell("own-limit-total", r["total_bytes"] == LIMIT and r["free_bytes"] <= LIMIT,
                       f"cuMemGetInfo {gib(r['total_bytes'])}, {gib(r['free_bytes'])} free")
            nvml.limit(group.path, NO_LIMIT)
            r = held(host, group.argv(fill))
            found.tell("own-limit-back", nvml.limited(group.path) == NO_LIMIT and
                       r["reached_bytes"] > LIMIT, f"{gib(r['reached_bytes'])} afterwards")
            nvml.limit(group.path, LIMIT)
        with Group(host) as group:
            r = held(host, group.argv(fill))
            found.tell("own-limit-goes", r["reached_bytes"] > LIMIT,
                       f"{gib(r['reached_bytes'])} in a new group of its name")
    except Unavailable as e:
        raise Skip(str(e)) from None
