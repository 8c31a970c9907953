"""What the driver takes for what programs ask for, seen from outside."""

import time

from harness import Program
from outside import Unavailable
from probe import mib, probe

MIB = 1 << 20
SLACK = 4 * MIB  # what the driver may take or give back beside what is looked at
NOT_READY = 600  # CUDA_ERROR_NOT_READY


class Stages:
    """What the device had in use at each stage of a program, and what the program said."""

    def __init__(self, host):
        self.nvml = host.nvml()
        self.nvml.settled()
        self.used, self.own, self.said = {}, {}, {}

    def at(self, program, stage):
        name = stage["stage"]
        if "pid" in stage:
            self.pid = stage["pid"]
        self.used[name], self.said[name] = self.nvml.used(), stage
        try:
            self.own[name] = self.nvml.processes().get(self.pid)
        except Unavailable:
            self.own[name] = None

    def grew(self, before, after):
        """Bytes that the device has more in use."""
        return self.used[after] - self.used[before]


def stages(host, what, **more):
    s = Stages(host)
    s.result = host.staged(host.workload("facts_memory", what), s.at, **more)
    return s


@probe("facts: start",
       ["init-takes-nothing", "context-bytes", "context-same", "context-second", "context-time",
        "retain-again", "release-frees", "context-frees", "gone-unknown", "nvml-adds-up",
        "nvml-quick"], timed=("context-time", "nvml-quick"))
def start(host, found):
    s = stages(host, "start", seconds=60)
    context = s.grew("initialised", "context")
    found.values.update(context_bytes=context, second_bytes=s.grew("again", "second"),
                        context_s=s.result["context_s"], used=s.used, own=s.own)
    found.tell("init-takes-nothing",
               abs(s.grew("before", "initialised")) < SLACK and s.own["initialised"] in (None, 0),
               f"{mib(s.grew('before', 'initialised'))} after cuInit")
    found.tell("context-bytes", 0 < context < 2 << 30, mib(context))
    found.tell("context-second", s.grew("again", "second") <= context + SLACK,
               f"{mib(s.grew('again', 'second'))} after {mib(context)}")
    found.tell("context-time", s.result["context_s"] < 10, f"{s.result['context_s']:.2f} s")
    found.tell("retain-again",
               abs(s.grew("context", "again")) < SLACK and s.said["again"]["active"] == 1,
               f"{mib(s.grew('context', 'again'))}, active {s.said['again']['active']}")
    filled, left = s.grew("second", "filled"), s.grew("again", "emptied")
    found.tell("context-frees", filled >= 128 * MIB and left < SLACK,
               f"{mib(filled)} allocated in a context, {mib(left)} stay of it and them")
    found.tell("gone-unknown", s.result["gone"] == 1, f"result {s.result['gone']}")
    left = s.grew("initialised", "released")
    found.tell("release-frees", left < SLACK, f"{mib(left)} stay")
    own = s.own["context"]
    found.tell("nvml-adds-up", None if own is None else abs(own - context) <= 16 * MIB,
               "NVML does not list it" if own is None else f"{mib(own)} of {mib(context)}")
    quick(host, found)
    others = two_contexts(host)
    found.values["of_two"] = others
    found.tell("context-same", max(others) - min(others) <= 16 * MIB,
               " and ".join(mib(n) for n in others))


def quick(host, found):
    took = []
    for _ in range(5):
        began = time.monotonic()
        host.nvml().processes()
        took.append(time.monotonic() - began)
    found.tell("nvml-quick", max(took) < 0.02, f"{1e3 * max(took):.2f} ms")


def two_contexts(host):
    """What a second and a third process's contexts take while the first has one."""
    sizes, programs = [], []
    try:
        for _ in range(2):
            before = host.nvml().settled()
            p = Program(host, host.workload("facts_memory", "share"))
            programs.append(p)
            p.stage(host.deadline(60))
            sizes.append(host.nvml().used() - before)
    finally:
        for p in programs:
            p.close()
    return sizes


@probe("facts: allocation",
       ["granule", "small-share", "shared-blocks", "alignment", "pitch", "free-at-once",
        "managed-lazy", "array-bytes", "nvml-at-once", "meminfo-agrees"])
def allocation(host, found):
    s = stages(host, "allocation")
    said = {n: v["free"] for n, v in s.said.items()}
    exact, over = s.grew("small", "exact"), s.grew("exact", "over")
    found.values.update(used=s.used, free=said, result=s.result)
    found.tell("granule", abs(exact - 8 * MIB) < MIB / 4 and abs(over - 4 * MIB) < MIB / 4,
               f"8 MiB take {mib(exact)}, 2 MiB and a byte {mib(over)}")
    small = s.grew("base", "small")
    found.tell("small-share", small <= 4 * MIB, f"1,001 small ones take {mib(small)}")
    taken = {int(n): (s.grew("freed", f"of {n}"), 2 * MIB * blocks)
             for n, blocks in s.result["blocks"].items()}
    found.values["blocks"] = taken
    found.tell("shared-blocks", all(abs(a - b) < MIB for a, b in taken.values()),
               "; ".join(f"of {n} bytes: {mib(a)}, in blocks of {mib(b)}"
                         for n, (a, b) in taken.items()))
    addresses = [s.said[n]["address"] for n in ("one byte", "small", "exact")]
    found.tell("alignment", all(a % 256 == 0 for a in addresses),
               f"all of 512 bytes: {all(a % 512 == 0 for a in addresses)}")
    wrong = {w: p for w, p in s.result["pitches"].items() if p != (int(w) + 511) // 512 * 512}
    found.tell("pitch", not wrong, f"{s.result['pitches']}")
    left = s.grew("base", "freed")
    found.tell("free-at-once", left <= 2 * MIB, f"{mib(left)} stay")
    lazy, touched = s.grew("freed", "managed"), s.grew("freed", "touched")
    found.tell("managed-lazy", lazy < SLACK and 0 < touched <= 64 * MIB + SLACK,
               f"64 MiB: {mib(lazy)} before it is touched, {mib(touched)} afterwards")
    array = s.grew("managed freed", "array")
    found.tell("array-bytes", abs(array - 64 * MIB) <= 2 * MIB, f"64 MiB take {mib(array)}")
    found.tell("nvml-at-once", exact >= 8 * MIB, f"{mib(exact)} of 8 MiB")
    agree = max(abs((said["base"] - said[n]) - s.grew("base", n))
                for n in ("small", "exact", "over"))
    found.tell("meminfo-agrees", agree <= SLACK, f"{mib(agree)} apart at most")


@probe("facts: pools",
       ["pool-portion", "pool-reserved", "pool-sync", "pool-trim", "pool-free", "pool-destroyed",
        "pool-default"])
def pools(host, found):
    s = stages(host, "pools")
    reserved = {n: v.get("reserved") for n, v in s.said.items()}
    found.values.update(used=s.used, reserved=reserved, result=s.result)
    first, five = reserved["one"], reserved["five"]
    found.tell("pool-portion", 0 < first <= 32 * MIB and five % first == 0,
               f"{mib(first)} for 1 MiB, {mib(five)} for 257")
    grown = s.grew("one", "five")
    found.tell("pool-reserved", abs(grown - (five - first)) <= SLACK,
               f"{mib(five - first)} more, from outside {mib(grown)}")
    kept = s.grew("one", "synchronised")
    found.tell("pool-sync", kept <= SLACK and reserved["synchronised"] <= 2 * first,
               f"{mib(kept)} kept after a synchronisation")
    found.tell("pool-trim", s.grew("one", "trimmed") <= SLACK,
               f"{mib(s.grew('one', 'trimmed'))} kept after a trim")
    found.tell("pool-free", s.result["crossed"] == [0, 0], f"results {s.result['crossed']}")
    kept, left = s.grew("crossed", "destroyed"), s.grew("crossed", "emptied")
    found.tell("pool-destroyed", kept >= 60 * MIB and left <= SLACK,
               f"{mib(kept)} while 64 MiB are in use, {mib(left)} afterwards")
    refused, after = s.result["undestroyed"]
    found.tell("pool-default", refused != 0 and after == 0, f"results {refused} and {after}")


@probe("facts: frees in stream order", ["ordered-free", "ordered-reuse"])
def ordered(host, found):
    s = stages(host, "ordered")
    found.values.update(used=s.used, result=s.result)
    blocked = s.result["codes"][1] == 0
    kept, left = s.grew("base", "freed"), s.grew("base", "reached")
    codes = s.result["codes"]
    found.tell("ordered-free", kept >= 128 * MIB and left <= SLACK and codes[2:] ==
               [NOT_READY] * 3 + [0] if blocked else None,
               f"{mib(kept)} of 128 MiB until the stream comes there, {mib(left)} afterwards; the "
               f"event behind it {codes[2:]}")
    same, another = s.grew("freed", "same"), s.grew("same", "another")
    found.tell("ordered-reuse", same <= SLACK and another >= 60 * MIB if blocked else None,
               f"{mib(same)} more for the same stream, {mib(another)} for another")


@probe("facts: virtual memory",
       ["vmm-granule", "vmm-create", "vmm-last", "vmm-ranges", "vmm-own-import",
        "vmm-retained-handle", "vmm-descriptor", "vmm-same-address", "vmm-no-ipc"])
def virtual(host, found):
    s = stages(host, "virtual")
    r, size = s.result, 32 * MIB
    found.values.update(used=s.used, result=r)
    found.tell("vmm-granule", r["granules"] == [2 * MIB, 2 * MIB],
               " and ".join(mib(g) for g in r["granules"]))
    made, mapped = s.grew("base", "created"), s.grew("created", "mapped")
    found.tell("vmm-create", made == size and mapped < SLACK,
               f"{mib(made)} of 32 MiB made, {mib(mapped)} more mapped twice")
    found.tell("vmm-last", s.grew("base", "released") >= size,
               f"{mib(s.grew('base', 'released'))} while mapped without a handle")
    found.tell("vmm-ranges", r["unmapped"] == 0, f"result {r['unmapped']}")
    found.tell("vmm-own-import", r["own_same"] and r["import_released"] == 0,
               f"the same number: {r['own_same']}")
    found.tell("vmm-retained-handle", r["retained_same"], f"the same number: {r['retained_same']}")
    kept, left = s.grew("base", "unmapped"), s.grew("base", "closed")
    found.tell("vmm-descriptor", kept >= size and left < SLACK,
               f"{mib(kept)} by the descriptor alone, {mib(left)} after it is closed")
    found.tell("vmm-same-address", r["moved"] == [7, 9],
               f"a graph of before left {r['moved'][0]} of 7, a copy {r['moved'][1]} of 9")
    found.tell("vmm-no-ipc", r["shared"] != 0, f"result {r['shared']}")


@probe("facts: context memory",
       ["module-memory", "unload-frees", "stack-memory", "heap-memory", "fifo-memory"])
def limits(host, found):
    s = stages(host, "limits")
    found.values.update(used=s.used, result=s.result)
    loaded, touched = s.grew("base", "module"), s.grew("base", "touched")
    found.tell("module-memory", loaded >= 64 * MIB,
               f"64 MiB of array: {mib(loaded)} when loaded, {mib(touched)} when used")
    left = s.grew("base", "unloaded")
    found.tell("unload-frees", left < SLACK if touched >= 64 * MIB else None,
               f"{mib(left)} of {mib(touched)} stay")

    def change(name):
        return s.grew("unloaded" if name == "stack" else "base", name), s.grew(
            "base", name + " launched"), s.grew("base", name + " back")

    want = s.result["threads"] * (15 << 10)
    at_once, launched, back = change("stack")
    found.tell("stack-memory", 0.8 * want <= max(at_once, launched) <= 1.2 * want + SLACK,
               f"16 KiB for {s.result['threads']} threads, {mib(want)} more: {mib(at_once)}, "
               f"{mib(launched)} after a launch, {mib(back)} after going back")
    set_heap = s.grew("fifo back", "heap")
    found.tell("heap-memory", set_heap < 64 * MIB,
               f"256 MiB: {mib(set_heap)}, {mib(s.grew('fifo back', 'heap launched'))} after a "
               "launch")
    set_fifo = max(s.grew("stack back", "fifo"), s.grew("stack back", "fifo launched"))
    found.tell("fifo-memory", set_fifo >= 60 * MIB, f"64 MiB: {mib(set_fifo)}")


@probe("facts: graphs", ["graph-memory", "graph-upload"])
def graphs(host, found):
    s = stages(host, "graphs")
    reserved = {n: v.get("reserved") for n, v in s.said.items()}
    found.values.update(used=s.used, reserved=reserved)
    launched, trimmed = s.grew("base", "launched"), s.grew("base", "trimmed")
    found.tell("graph-memory",
               reserved["instantiated"] == 0 and launched >= 60 * MIB and
               abs(launched - reserved["launched"]) <= 16 * MIB and trimmed < 32 * MIB,
               f"told of {mib(reserved['launched'])}, from outside {mib(launched)}; "
               f"{mib(trimmed)} after a trim")
    made, ready = s.grew("trimmed", "many"), s.grew("trimmed", "many launched")
    found.tell("graph-upload", ready >= 2 * MIB,
               f"10 graphs of 1,000 nodes: {mib(made)} instantiated, {mib(ready)} launched")


@probe("facts: memory of others", ["ipc-once", "ipc-listed-once", "ipc-range", "ipc-outlives"])
def sharing(host, found):
    nvml, until = host.nvml(), host.deadline(60)

    begin = nvml.settled()
    maker = Program(host, host.workload("facts_memory", "share"))
    user = Program(host, host.workload("facts_memory", "open"))
    try:
        maker.stage(until)
        pid = user.stage(until)["pid"]
        maker.go()
        handle = maker.stage(until)["handle"]
        before, own = nvml.used(), nvml.processes().get(pid)
        user.say("go\n" + handle + "\n")
        opened = user.stage(until)
        after, own_after = nvml.used(), nvml.processes().get(pid)
        found.tell("ipc-once", after - before < SLACK, f"{mib(after - before)} for 256 MiB")
        known = own is not None and own_after is not None
        found.tell("ipc-listed-once", own_after - own < 128 * MIB if known else None,
                   f"{mib(own_after - own)} more of the importer" if known else "NVML lists none")
        found.tell("ipc-range", opened["range"] == [0, 256 * MIB, True],
                   f"result {opened['range'][0]}, {mib(opened['range'][1])}")
        maker.kill()
        kept = nvml.settled()
        user.go()
        user.stage(until)
        closed = nvml.used()
        found.values.update(begin=begin, before=before, after=after, own=[own, own_after],
                            maker_killed=kept, closed=closed)
        found.tell("ipc-outlives", kept - closed >= 200 * MIB,
                   f"{mib(kept - closed)} until it was closed")
    finally:
        maker.close()
        user.close()
