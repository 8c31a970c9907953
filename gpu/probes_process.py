"""How the driver is found, what it allows in which state, and how programs end."""

import os
import signal
import time

from harness import Program
from matrix import NO_MEMORY, unshare
from outcome import Failed, Skip
from probe import ALL, mib, probe

MIB = 1 << 20


def program(host, what, *arguments):
    return host.workload("facts_process", what, *arguments)


@probe("facts: device",
       ["visible-uuid", "visible-index", "visible-at-init", "uuid-same", "default-mode",
        "nvml-reserved", "own-limit"])
def device(host, found):
    nvml = host.nvml()
    theirs = [nvml.uuid(n) for n in range(nvml.count())]
    everything = {"CUDA_VISIBLE_DEVICES": ",".join(str(n) for n in range(len(theirs)))}
    r = host.one(program(host, "device"), env=everything)
    ours = [d["uuid"] for d in r["devices"]]
    last = host.one(program(host, "device"), env={"CUDA_VISIBLE_DEVICES": theirs[-1]})["devices"]
    memory = nvml.memory()
    found.values.update(nvml=theirs, cuda=r, by_uuid=last, memory=memory)
    found.tell("uuid-same", sorted(ours) == sorted(theirs), f"{ours[0]} and {theirs[0]}")
    found.tell("visible-index", None if len(theirs) < 2 else ours == theirs,
               f"{len(theirs)} GPUs" + (", in the same order" if ours == theirs else ""))
    found.tell("visible-uuid", [d["uuid"] for d in last] == theirs[-1:], f"{len(last)} devices")
    found.tell("visible-at-init", r["later"] == len(ours),
               f"{len(ours)} devices, {r['later']} after a change")
    found.tell("default-mode", nvml.compute_mode() == 0, f"mode {nvml.compute_mode()}")
    here = memory["total"] - memory["reserved"]
    told = r["devices"][0]["total"]
    found.tell("nvml-reserved", told <= here,
               f"cuDeviceTotalMem {mib(told)}, NVML {mib(memory['total'])} less "
               f"{mib(memory['reserved'])}")
    version, has = nvml.driver(), nvml.has("nvmlDeviceSetMemoryLimits_v1")
    branch = int(version.split(".")[0]) if version.split(".")[0].isdigit() else 0
    found.tell("own-limit", has == (branch >= 615), f"driver {version}: {has}")


@probe("facts: look-up",
       ["symbols-are-entry-points", "per-thread-entry-points", "newer-version-asked",
        "export-tables"])
def entries(host, found):
    r = host.one(program(host, "entries"))
    found.values.update(r)
    found.tell("symbols-are-entry-points", r["same"] > 50 and not r["other"],
               f"{r['same']} are, others: {', '.join(r['other'][:8]) or 'none'}")
    wrong = [s for s, right in r["flavours"].items() if not right]
    found.tell("per-thread-entry-points", not wrong, f"others: {', '.join(wrong) or 'none'}")
    found.tell("newer-version-asked", not r["newer"],
               f"others: {', '.join(r['newer'][:8]) or 'none'}")
    there = [n for n, code in r["tables"].items() if code == 0]
    found.tell("export-tables", "runtime" in there, f"there: {', '.join(there) or 'none'}")


@probe("facts: capture",
       ["capture-global", "capture-relaxed", "capture-local", "capture-legacy-asked",
        "capture-legacy-recorded", "captured-event", "capture-memory", "exchange-no-context"],
       timed=("exchange-no-context",))
def capture(host, found):
    r = host.one(program(host, "capture"))
    found.values.update(r)

    def tell(belief, name, codes, end):
        codes_hold = r[name]["codes"] is not None and codes(r[name]["codes"])
        found.tell(belief, codes_hold and end(r[name]["end"]),
                   f"results {r[name]['codes']}, the capture ends with {r[name]['end']}")

    tell("capture-global", "global_query", lambda c: c == [900], lambda e: e != 0)
    tell("capture-relaxed", "relaxed", lambda c: not any(c), lambda e: e == 0)
    tell("capture-local", "local", lambda c: c == [0], lambda e: e == 0)
    tell("capture-legacy-asked", "asked", lambda c: c == [906], lambda e: e == 0)
    tell("capture-legacy-recorded", "recorded", lambda c: c != [0], lambda e: True)
    tell("captured-event", "captured", lambda c: c[0] == 0 and c[1] not in (0, 600),
         lambda e: e != 0)
    tell("capture-memory", "memory", lambda c: not any(c), lambda e: e == 0)
    nvml, used = host.nvml(), []
    nvml.settled()
    e = host.staged(program(host, "exchange"), lambda p, stage: used.append(nvml.used()))
    found.values["exchange"] = {**e, "used": used}
    found.tell("exchange-no-context",
               e["codes"] == [0, 0, 0] and not e["current"] and used[1] - used[0] < 4 * MIB and
               r["exchange_us"] < 10,
               f"results {e['codes']}, {mib(used[1] - used[0])}, {r['exchange_us']:.2f} us")


@probe("facts: death", ["kill-frees", "kill-stops-kernel"], timed=ALL)
def death(host, found):
    for belief, kernel in (("kill-frees", 0), ("kill-stops-kernel", 8e6)):
        held, ended, free = killed(host, kernel)
        found.values[belief] = {"held": held, "ended_s": ended, "free_s": free}
        if free is None:
            found.tell(belief, False, f"{mib(held)} were not free after 6 s")
            continue
        found.tell(belief, (free if kernel else free - ended) <= 1,
                   f"{mib(held)}: the process had ended after {1e3 * ended:.1f} ms, its memory was "
                   f"free after {1e3 * free:.1f} ms")


def killed(host, kernel_us):
    """What a process held, and how long after its SIGKILL it had ended and its memory was free."""
    nvml = host.nvml()
    before = nvml.settled()
    p = Program(host, program(host, "hold", "--kernel-us", kernel_us, "--rounds-per-us",
                              host.rounds_per_us))
    try:
        p.stage(host.deadline(60))
        held, began = nvml.used() - before, time.monotonic()
        p.kill()
        ended = time.monotonic() - began
        took = nvml.until(lambda used: used - before < 4 * MIB, 6)
    finally:
        p.close()
    return held, ended, None if took is None else ended + took


@probe("facts: fork", ["fork-child", "fork-before", "fork-keeps", "nvml-ended", "exec-lets-go"])
def fork(host, found):
    r = host.one(program(host, "forked"))
    found.values["forked"] = r
    found.tell("fork-child", set(r["codes"]) == {3} and r["parent"], f"results {r['codes']}")
    child = host.one(program(host, "fork-first"))["child"]
    found.tell("fork-before", child == 7, f"the child ends with {child}")
    held, kept, left, listed = keeps(host, "fork-hold")
    found.tell("fork-keeps", kept >= 0.9 * held and left < 4 * MIB,
               f"{mib(held)} held, {mib(kept)} half a second after the parent's end, {mib(left)} "
               "after the child's")
    found.tell("nvml-ended", None if listed is None or kept < 4 * MIB else not listed,
               "NVML does not list it while it lives" if listed is None else
               f"the ended process is {'' if listed else 'not '}listed")
    held, kept, _, _ = keeps(host, "fork-exec")
    found.tell("exec-lets-go", held > 0 and kept < 4 * MIB,
               f"{mib(held)} held, {mib(kept)} half a second after the parent's end")


def keeps(host, what):
    """What a process holds, what stays when it is killed while a child lives, and what when that is
    gone too; and whether it is listed meanwhile, None where it was not even before."""
    nvml, child, listed = host.nvml(), None, None
    before = nvml.settled()
    p = Program(host, program(host, what))
    try:
        child = p.stage(host.deadline(60))["child"]
        held, known = nvml.used() - before, p.process.pid in nvml.processes()
        os.kill(p.process.pid, signal.SIGKILL)
        p.process.wait()
        kept = nvml.settled(quiet=0.5) - before
        if known:
            listed = p.process.pid in nvml.processes()
    finally:
        if child:
            os.kill(child, signal.SIGKILL)
        p.close()
    nvml.until(lambda used: used - before < 4 * MIB, 5)
    return held, kept, nvml.used() - before, listed


@probe("facts: exit", ["exit-order", "exit-thread"], needs=35, timed=("exit-thread",))
def exits(host, found):
    codes = host.one(program(host, "order"))["codes"]
    found.values["order"] = codes
    found.tell("exit-order", codes.get("after") == 0 and codes.get("before") == 4,
               f"registered after the context: {codes.get('after')}, before cuInit: "
               f"{codes.get('before')}")
    r = host.one(program(host, "storm", "--seconds", 5 if host.fake else 20), seconds=60)
    found.values["storm"] = r
    begun = r["processes"] - r["ends"].get(str(NO_MEMORY), 0)
    crashed = begun - r["ends"].get("0", 0)
    found.tell("exit-thread", crashed > 0 or (None if begun < 200 else False),
               f"{crashed} of {begun} processes did not end well: {r['ends']}")


@probe("facts: sticky errors", ["sticky", "sticky-contained"], timed=("sticky-contained",))
def sticky(host, found):
    beside = Program(host, host.workload("facts_time", "busy", "--kernel-us", 250, "--seconds", 2,
                                         "--rounds-per-us", host.rounds_per_us))
    try:
        beside.ready(host.deadline(60))
        beside.go()
        r = host.staged(program(host, "fault"), lambda p, stage: None)
        other = beside.result(host.deadline(30))
    finally:
        beside.close()
    codes = r["codes"]
    found.values.update(codes=codes, beside=other["iterations"])
    if codes["synchronise"] == 0:
        raise Skip("the kernel that stores to an address outside of everything went well")
    found.tell("sticky", set(codes.values()) == {700}, f"results {codes}")
    found.tell("sticky-contained", other["iterations"] > 100,
               f"a program beside it did {other['iterations']} steps")


@probe("facts: green contexts", ["green-retains", "green-one-thread", "green-events"])
def green(host, found):
    r = host.one(program(host, "green"))
    found.values.update(r)
    if "absent" in r:
        raise Skip(f"no green contexts here: {r['absent']}")
    found.tell("green-retains", r["before"] == 0 and r["after"] == 1,
               f"active {r['before']} before, {r['after']} afterwards")
    found.tell("green-one-thread", r["codes"][0] == 0 and r["codes"][1] != 0,
               f"results {r['codes']}")
    found.tell("green-events", not any(r["events"]), f"results {r['events']}")


@probe("facts: container", ["namespace-runs", "namespace-number"])
def container(host, found):
    library = os.path.join(host.env["LD_LIBRARY_PATH"].split(":")[0], "libnvidia-ml.so.1"
                           ) if host.fake else "libnvidia-ml.so.1"
    try:
        r = host.one(unshare(*program(host, "inside", "--nvml", library)))
    except Failed as e:
        found.tell("namespace-runs", False, str(e))
        raise
    found.values.update(r)
    found.tell("namespace-runs", True, "a context and 512 MiB")
    if "unavailable" in r:
        found.tell("namespace-number", None, r["unavailable"])
        return
    own = r["listed"].get(str(r["pid"]), "not listed")
    found.tell("namespace-number", own == "not listed" or (own or 0) >= 512 * MIB,
               f"process {r['pid']}: {own if isinstance(own, str) else mib(own or 0)}; listed: "
               f"{r['listed']}")
