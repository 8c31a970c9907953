"""What events and waits cost, and how processes share device time without weir."""

import statistics

from harness import Failed, common_rates
from probe import ALL, probe


def program(host, what, *arguments):
    return host.workload("facts_time", what, "--rounds-per-us", host.rounds_per_us, *arguments)


@probe("facts: two processes",
       ["turns-whole", "turns-equal", "turns-cost", "turn-length", "kernel-is-interrupted",
        "elapsed-others", "copies-beside"], needs=50, timed=ALL)
def processes(host, found):
    seconds = 2
    one = program(host, "busy", "--kernel-us", 250, "--ahead", 2, "--seconds", seconds)
    filling = ["--kernel-us", 100, "--ahead", 4, "--blocks", 1024, "--seconds", seconds]
    full = program(host, "busy", *filling)
    wide = program(host, "busy", "--streams", 8, *filling)

    def rate(argv):
        (r,) = host.together((argv, None), seconds=seconds)
        return r["per_s"]

    def shares(first, second):
        """What each of two gets, as a part of what it has alone."""
        alone = [rate(first), rate(second)]
        both = host.together((first, None), (second, None), seconds=seconds)
        return [r / a for r, a in zip(common_rates(both), alone)]

    small = shares(one, one)
    found.values["small"] = small
    found.tell("turns-whole", sum(small) <= 1.3,
               f"two programs whose kernels fill a small part: {small[0]:.2f} and {small[1]:.2f}")
    uneven = shares(full, wide)
    found.values["one_and_eight_streams"] = uneven
    found.tell("turns-equal", all(abs(s / sum(uneven) - 0.5) <= 0.06 for s in uneven),
               f"one stream {uneven[0]:.2f}, eight streams {uneven[1]:.2f}")
    found.tell("turns-cost", sum(uneven) >= 0.9, f"{sum(uneven):.2f} of the device")
    beside_long(host, found, seconds)
    elapsed(host, found, seconds, one)
    copying(host, found, seconds, one)


def beside_long(host, found, seconds):
    """A program of short kernels beside one whose kernels take a second."""
    long = program(host, "busy", "--kernel-us", 1e6, "--ahead", 1, "--seconds", seconds + 1)
    short = program(host, "busy", "--kernel-us", 100, "--seconds", seconds)
    r, _ = host.together((short, None), (long, None), seconds=seconds + 3)
    found.values["short_beside_long"] = {k: r[k] for k in ("p50_ms", "p99_ms", "max_ms")}
    found.tell("kernel-is-interrupted", r["max_ms"] < 500,
               f"kernels of 0.1 ms take {r['p50_ms']:.2f} ms, at most {r['max_ms']:.1f}")
    found.tell("turn-length", 0.5 <= r["p50_ms"] <= 6 if r["max_ms"] < 500 else None,
               f"one waits {r['p50_ms']:.2f} ms for its turn, p99 {r['p99_ms']:.2f}")


def elapsed(host, found, seconds, flood):
    argv = program(host, "timed", "--kernel-us", 5000, "--seconds", seconds)
    (alone,) = host.together((argv, None), seconds=seconds)
    beside, _ = host.together((argv, None), (flood, None), seconds=seconds)
    times = [statistics.median(r["measured"]) for r in (alone, beside)]
    found.values["elapsed_ms"] = times
    found.tell("elapsed-others", times[1] >= 1.5 * times[0],
               f"a kernel of 5 ms: {times[0]:.2f} ms alone, {times[1]:.2f} beside another program")


def copying(host, found, seconds, flood):
    argv = program(host, "copies", "--seconds", seconds)
    (alone,) = host.together((argv, None), seconds=seconds)
    beside, _ = host.together((argv, None), (flood, None), seconds=seconds)
    speeds = [r["per_s"] * r["bytes"] / 1e9 for r in (alone, beside)]
    found.values["copies_gb_s"] = speeds
    found.tell("copies-beside", speeds[1] >= 0.5 * speeds[0],
               f"{speeds[0]:.1f} GB/s alone, {speeds[1]:.1f} beside another program's kernels")


@probe("facts: events",
       ["record-cost", "launch-cost", "record-device-cost", "elapsed-resolution", "elapsed-true",
        "copy-guess"], needs=25, timed=ALL)
def events(host, found):
    r = host.one(program(host, "events"), seconds=60)
    found.values.update(r)
    cost = {n: t - r["costs_us"]["nothing"] for n, t in r["costs_us"].items()}
    found.tell("launch-cost", 1 <= cost["launch"] <= 10, f"{cost['launch']:.2f} us")
    found.tell("record-cost", max(cost["record"], cost["query"]) < 10,
               f"a record {cost['record']:.2f} us, a query {cost['query']:.2f} us")
    found.tell("record-device-cost", r["event_device_us"] < 5,
               f"{r['event_device_us']:.2f} us between kernels of 100 us")
    smallest = r["smallest_us"]
    found.tell("elapsed-resolution", smallest is not None and smallest <= 1.1,
               f"{r['distinct']} different times, at least "
               f"{-1 if smallest is None else smallest:.3f} us apart")
    ratio = r["elapsed_s"] / r["wall_s"]
    found.tell("elapsed-true", 0.98 <= ratio <= 1.001,
               f"{r['elapsed_s']:.4f} s by events, {r['wall_s']:.4f} s by the clock")
    found.tell("copy-guess", 4 <= r["copy_gb_s"] <= 128, f"{r['copy_gb_s']:.1f} GB/s")


@probe("facts: waits",
       ["look-idle", "look-wakes", "blocking-wakes", "query-not-held-up", "queue-deep",
        "query-beside-full-queue", "small-stack", "stream-gone", "memop-waits-alone",
        "event-behind-wait", "streams-overlap", "free-waits", "event-gone", "copy-pageable",
        "copy-within"], needs=30, timed=ALL)
def waits(host, found):
    r = host.one(program(host, "waits"), seconds=90)
    found.values.update(r)
    looking, blocking, queue, gone, values = (r[n] for n in ("looking", "blocking", "queue",
                                                             "gone", "values"))
    found.tell("look-idle", looking["cpu_s"] < 0.03,
               f"{1e3 * looking['cpu_s']:.1f} ms of processor in 300 ms")
    found.tell("look-wakes", looking["late_us"] < 200, f"{looking['late_us']:.0f} us later")
    found.tell("blocking-wakes", blocking["cpu_s"] < 0.03 and blocking["late_us"] < 100,
               f"{1e3 * blocking['cpu_s']:.1f} ms of processor in 300 ms, "
               f"{blocking['late_us']:.0f} us later")
    beside = r["synchronise"]
    found.tell("query-not-held-up",
               beside["longest_ms"] < 20 if beside["busy_all_the_time"] else None,
               f"{beside['longest_ms']:.2f} ms at most")
    found.tell("queue-deep", queue["depth"] >= 900, f"{queue['depth']} launches")
    longest = queue["longest_ms"]
    found.tell("query-beside-full-queue", None if longest is None else longest < 20,
               "no launch waited" if longest is None else f"{longest:.2f} ms at most")
    found.tell("stream-gone", gone["destroy_s"] < 0.1 and gone["query"] == 600 and
               gone["wait"] == 0 and gone["wait_s"] > 0.2,
               f"destroyed in {1e3 * gone['destroy_s']:.1f} ms, query {gone['query']}, "
               f"wait {gone['wait']} after {gone['wait_s']:.2f} s")
    event = r["event"]
    found.tell("event-gone", event["code"] == 0 and event["destroy_s"] < 0.1 and
               event["after"] == 0 and event["wait_s"] > 0.2,
               f"destroyed in {1e3 * event['destroy_s']:.1f} ms, result {event['code']}; the work "
               f"ends {event['wait_s']:.2f} s later with {event['after']}")
    found.tell("free-waits", r["free_s"] >= 0.2,
               f"{1e3 * r['free_s']:.1f} ms beside a kernel of 300 ms")
    copies = r["copying_s"]
    found.tell("copy-pageable", copies["pageable"] >= 0.2,
               f"{1e3 * copies['pageable']:.1f} ms behind a kernel of 300 ms")
    found.tell("copy-within", copies["within"] < 0.1,
               f"{1e3 * copies['within']:.1f} ms behind a kernel of 300 ms")
    found.tell("streams-overlap", r["overlap_s"] < 0.3,
               f"two kernels of 0.2 s take {r['overlap_s']:.2f} s")
    if values["code"]:
        found.tell("memop-waits-alone", None, f"no stream memory operations: {values['code']}")
        found.tell("event-behind-wait", None, f"no stream memory operations: {values['code']}")
    else:
        found.tell("memop-waits-alone", values["streams"] >= 1,
                   f"up to {values['streams']} waiting streams hold up no other")
        found.tell("event-behind-wait", values["before"] == 600 and values["release_s"] < 1,
                   f"query {values['before']} before, released in {values['release_s']:.3f} s")
    small_stack(host, found)


def small_stack(host, found):
    try:
        done = host.one(program(host, "stack"), seconds=30)["done"]
        found.tell("small-stack", done, "calls on a stack of 256 KiB")
    except Failed as e:
        found.tell("small-stack", False, str(e))


@probe("facts: lazy loading", ["lazy-default", "lazy-first-launch", "lazy-waits"], timed=ALL)
def lazy(host, found):
    r = host.one(program(host, "lazy"), seconds=60)
    found.values.update(r)
    found.tell("lazy-default", r["mode"] == 2, f"loading mode {r['mode']}")
    found.tell("lazy-first-launch", r["first_us"] >= 3 * r["later_us"],
               f"first {r['first_us']:.0f} us between events, later {r['later_us']:.0f} us")
    found.tell("lazy-waits", r["beside_us"] >= 300000,
               f"beside a kernel of 0.5 s a first launch takes {r['beside_us']:.0f} us, otherwise "
               f"{r['first_launch_us']:.0f}")
