"""What is checked: each function makes one check and returns whether it holds, a line about it, and
the numbers."""

import json
import os
import shutil
import signal
import statistics
import subprocess
import time

from harness import READY_S, Failed, Program, Share, Skip, common_rates, completed

GIB = 1 << 30
NCCL_INVALID_USAGE = 5
NO_MEMORY = 99  # how a process of workloads/facts_process ends that finds no memory
WHOLE = {"compute": 1.0}


def gib(n):
    return f"{n / GIB:.2f} GiB"


class Bounds:
    """What must hold. On the fake driver the timeline is exact but the host is shared by all
    programs, so time is looser there."""

    def __init__(self, fake):
        self.overhead = 0.05 if fake else 0.01
        self.share_points = 5 if fake else 3
        self.p99_ratio = 1.5 if fake else 1.15
        self.seconds = 3 if fake else 4


# Devices and memory.


def devices(host, book):
    """The list names every GPU as nvidia-smi does."""
    argv = [host.weir, "device", "list", "--json"]
    out = subprocess.run(host.under(Share("1GiB")) + argv if host.fake else argv,
                         env=host.env,
                         capture_output=True,
                         timeout=60,
                         check=True)
    gpus = [d for d in json.loads(out.stdout)["devices"] if d["kind"] == "cuda"]
    if not gpus:
        raise Failed(f"no GPU in the list: {out.stderr.decode(errors='replace').strip()}")
    book.gpus = gpus
    smi = shutil.which("nvidia-smi")
    if host.fake or not smi:
        return all(g["name"] and g["uuid"] for g in gpus), f"{len(gpus)} GPUs", {"gpus": gpus}
    query = subprocess.run([smi, "--query-gpu=uuid,name,driver_version", "--format=csv,noheader"],
                           capture_output=True,
                           text=True,
                           timeout=60,
                           check=True)
    theirs = [
        tuple(f.strip() for f in line.split(",")) for line in query.stdout.strip().splitlines()
    ]
    ours = [(g["uuid"], g["name"], g["driver"]["version"]) for g in gpus]
    return ours == theirs, f"{len(gpus)} GPUs, as nvidia-smi lists them: {ours == theirs}", {
        "gpus": gpus, "nvidia_smi": theirs
    }


def cap_holds(r, cap, exact_total=True):
    """What is wrong with a memory report under a cap, in words; empty when nothing is."""
    faults = []
    if exact_total and r["total_bytes"] != cap:
        faults.append(f"the program is told of {r['total_bytes']} bytes, the cap is {cap}")
    if r["reached_bytes"] > cap:
        faults.append(f"it reached {r['reached_bytes']} bytes")
    if r["reached_bytes"] < cap * 0.6:
        faults.append(f"it reached {gib(r['reached_bytes'])} of {gib(cap)} only")
    if r.get("nvml_total_bytes") not in (None, cap):
        faults.append(f"NVML tells of {r['nvml_total_bytes']} bytes")
    return faults


def unshare(*what):
    """The command that gives a program a user and pid namespace of its own; Skip where that is not
    allowed."""
    argv = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    try:
        tried = subprocess.run([*argv, "true"],
                               capture_output=True,
                               text=True,
                               timeout=30,
                               check=False)
    except OSError as e:
        raise Skip(f"no unshare here: {e}") from None
    if tried.returncode:
        raise Skip(f"no namespace of one's own here: {tried.stderr.strip()}")
    return [*argv, *what]


def namespace(host, cap):
    """The cap holds for a program in a pid namespace of its own, where numbers of processes do not
    say who it is."""
    r = watched(host, cap, unshare(*host.workload("driver", "memory")))
    faults = cap_holds(r, cap) + beyond(r, cap)
    return not faults, "; ".join(faults) or f"from outside {gib(r['outside_peak_bytes'])}", r


def watched(host, cap, argv, **more):
    """Run a program under a cap, and add to its result the most that it had by the management
    library, above all at the stage where it can get no more."""
    host.nvml().settled()
    with host.nvml().peak() as seen:
        r = host.staged(argv, lambda p, stage: seen.look(), Share(f"{cap}B"), **more)
    return {**r, "outside_peak_bytes": seen.peak - seen.base}


def beyond(r, cap):
    """What is wrong with what a program had from outside."""
    most = r["outside_peak_bytes"]
    return [f"from outside it had {most} bytes"] if most > cap else []


def memory_cap(host, cap):
    r = watched(host, cap, host.workload("driver", "memory"))
    faults = cap_holds(r, cap) + beyond(r, cap)
    if r["error"] != 2:
        faults.append(f"the error beyond it is {r['error']}, not CUDA_ERROR_OUT_OF_MEMORY")
    if r["device_total_bytes"] != cap:
        faults.append(f"cuDeviceTotalMem tells of {r['device_total_bytes']} bytes")
    return not faults, "; ".join(
        faults
    ) or (f"total {gib(r['total_bytes'])}, reached {gib(r['reached_bytes'])}, from outside "
          f"{gib(r['outside_peak_bytes'])}, then out of memory"), r


def torch_cap(host, cap, expandable=False):
    host.needs("torch")
    env = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"} if expandable else None
    r = watched(host, cap, host.workload("torch_memory"), env=env, seconds=120)
    faults = cap_holds(r, cap) + beyond(r, cap)
    if expandable and not r["expandable"]:
        raise Skip("this PyTorch makes no expandable segments")
    if "out of memory" not in r["out_of_memory"]:
        faults.append("no ordinary out-of-memory error")
    if not r["alive"]:
        faults.append("wrong results after it")
    detail = (f"total {gib(r['total_bytes'])}, reached {gib(r['reached_bytes'])}, "
              "then torch.cuda.OutOfMemoryError")
    return not faults, "; ".join(faults) or detail, r


def framework(host, cap, module, workload):
    """A framework runs and computes correctly, is told of no more than the cap, and has no more
    from outside."""
    host.needs(module)
    host.nvml().settled()
    with host.nvml().peak() as seen:
        (r,) = host.together((host.workload(workload, "--seconds", 3), Share(f"{cap}B")), seconds=3)
    r["outside_peak_bytes"] = seen.peak - seen.base
    told, faults = r.get("total_bytes"), beyond(r, cap)
    if not r["correct"]:
        faults.append("its results are wrong")
    if told is None or told > cap:
        faults.append(f"it is told of {told} bytes, the cap is {cap}")
    return not faults, "; ".join(faults) or (f"correct, told of {gib(told)}, from outside "
                                             f"{gib(r['outside_peak_bytes'])}"), r


def loader(host, cap):
    """Forked data workers: the same losses as without weir."""
    host.needs("torch")
    shared = host.one(host.workload("torch_loader"), Share(f"{cap}B"), seconds=120)
    bare = host.one(host.workload("torch_loader"), seconds=120)
    close = abs(shared["last_loss"] - bare["last_loss"]) <= 1e-2 * abs(bare["last_loss"])
    detail = (f"{shared['batches']} batches, last loss {shared['last_loss']:.4f}, "
              f"without weir {bare['last_loss']:.4f}")
    same = close and shared["batches"] == bare["batches"]
    return same, detail, {"shared": shared, "bare": bare}


def static_runtime(host, cap):
    """A program with the CUDA runtime linked into it."""
    nvcc = shutil.which("nvcc") or (os.path.exists("/usr/local/cuda/bin/nvcc")
                                    and "/usr/local/cuda/bin/nvcc")
    if not nvcc:
        raise Skip("no nvcc here")
    program = os.path.join(host.scratch, "vector")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "workloads", "vector.cu")
    subprocess.run([nvcc, "-cudart", "static", "-o", program, source],
                   check=True,
                   capture_output=True,
                   timeout=120)
    host.nvml().settled()
    with host.nvml().peak() as seen:
        r = host.one([program], Share(f"{cap}B"))
    r["outside_peak_bytes"] = seen.peak - seen.base
    faults = beyond(r, cap)
    return r["correct"] and r["total_bytes"] == cap and r["beyond"] == 2 and not faults, f"{r}", r


def static_executable(host):
    """What cannot be preloaded is refused, with the reason."""
    program = os.path.join(host.scratch, "static")
    cc = shutil.which("cc")
    if cc:
        built = subprocess.run([cc, "-static", "-x", "c", "-o", program, "-"],
                               input=b"int main(void) { return 0; }",
                               capture_output=True,
                               timeout=60,
                               check=False)
        cc = None if built.returncode else cc
    if not cc:
        # ldconfig is linked statically so that it can repair the libraries.
        found = [p for p in ("/sbin/ldconfig.real", "/sbin/ldconfig") if os.path.exists(p)]
        with open(found[0] if found else os.devnull, "rb") as f:
            head = f.read(4096)
        if not head.startswith(b"\x7fELF") or b"/ld-" in head:
            raise Skip("no static executable here")
        program = found[0]
    done = subprocess.run(host.under(Share("1GiB")) + [program],
                          env=host.env,
                          capture_output=True,
                          text=True,
                          timeout=60,
                          check=False)
    reason = done.stderr.strip()
    detail = f"exit {done.returncode}: {reason[-200:]}"
    refused = done.returncode != 0 and "static" in reason
    return refused, detail, {"exit": done.returncode, "reason": reason}


# Time.


def overhead(host, bounds, argv, share):
    """Alone with the whole device: weir against nothing, in turns, so that what drifts meets both.
    """
    rates = {"weir": [], "bare": []}
    for who in ("weir", "bare", "bare", "weir"):
        (r,) = host.together((argv, share if who == "weir" else None), seconds=bounds.seconds)
        rates[who].append(r["per_s"])
    shared, bare = statistics.mean(rates["weir"]), statistics.mean(rates["bare"])
    cost = 1 - shared / bare
    detail = f"{shared:.1f} steps/s, without weir {bare:.1f}: {100 * cost:+.2f} %"
    return cost <= bounds.overhead, detail, {"cost": cost, "bound": bounds.overhead, **rates}


def alone(host, argv, share, seconds):
    (r,) = host.together((argv, share), seconds=seconds)
    return r


def solo(host, argv, memory, seconds):
    """Steps per second of a program that has the whole device; measured once.

    On the fake driver it follows from what the kernels are stated to take, which the load of this
    machine does not change.
    """
    key = tuple(argv)
    if key not in host.solo:
        r = alone(host, argv, Share(memory, **WHOLE), seconds)
        host.solo[key] = 1e6 / (r["batch"] * r["kernel_us"]) if host.fake else r["per_s"]
    return host.solo[key]


def shares(host, bounds, first, second, memory, fractions=(0.3, 0.7)):
    """Two programs that want the whole device get what they were promised; beside it, what stock
    time slicing gives them."""
    singly = [solo(host, argv, memory, bounds.seconds) for argv in (first, second)]

    def split(one, two):
        r = host.together((first, one), (second, two), seconds=bounds.seconds + 2)
        used = [rate / s for rate, s in zip(common_rates(r), singly)]
        return [u / sum(used) for u in used], sum(used)

    got, total = split(*(Share(memory, compute=f) for f in fractions))
    stock, stock_total = split(None, None)
    error = 100 * max(abs(g - f) for g, f in zip(got, fractions))
    detail = (f"{100 * got[0]:.1f} and {100 * got[1]:.1f} % ({error:.1f} points off), "
              f"{100 * total:.0f} % of one program alone; stock time slicing {100 * stock[0]:.0f} "
              f"and {100 * stock[1]:.0f} %")
    return error <= bounds.share_points, detail, {
        "shares": got,
        "error_points": error,
        "bound_points": bounds.share_points,
        "throughput_vs_solo": total,
        "stock_shares": stock,
        "stock_throughput_vs_solo": stock_total,
        "solo_per_s": singly,
    }


def limit(host, bounds, argv, memory, fraction=0.5):
    """A limit holds although nobody else wants the device."""
    whole = solo(host, argv, memory, bounds.seconds)
    share = Share(memory, compute=0.2, limit=fraction)
    got = alone(host, argv, share, bounds.seconds + 2)["per_s"] / whole
    detail = f"{100 * got:.1f} % of the device under a limit of {100 * fraction:.0f} %"
    holds = got <= fraction + bounds.share_points / 100
    return holds, detail, {"share": got, "limit": fraction}


def latency(host, bounds, server, trainer, memory):
    """Small requests beside a program that floods the device: their p99 against that alone."""
    seconds = bounds.seconds + 2
    first = Share(memory, compute=0.5, kind="latency")
    single = alone(host, server, first, seconds)
    bare = alone(host, server, None, seconds)
    beside = host.together((server, first),
                           (trainer, Share(memory, compute=0.1, kind="opportunistic")),
                           seconds=seconds)
    stock = host.together((server, None), (trainer, None), seconds=seconds)
    ratio, theirs = beside[0]["p99_ms"] / bare["p99_ms"], stock[0]["p99_ms"] / bare["p99_ms"]
    detail = (f"p99 {bare['p99_ms']:.2f} ms alone, {beside[0]['p99_ms']:.2f} ms beside "
              f"({ratio:.2f} times); stock time slicing {stock[0]['p99_ms']:.2f} ms ({theirs:.2f} "
              f"times)")
    keep = ("p50_ms", "p99_ms", "max_ms", "per_s")
    runs = (("alone", bare), ("alone_weir", single), ("beside", beside[0]), ("stock", stock[0]))
    return ratio <= bounds.p99_ratio, detail, {
        "ratio": ratio,
        "bound": bounds.p99_ratio,
        "stock_ratio": theirs,
        **{name: {k: r[k] for k in keep} for name, r in runs},
        "trainer_per_s": beside[1]["per_s"],
        "stock_trainer_per_s": stock[1]["per_s"],
    }


# MPS.


def mps_control(host):
    """The program that speaks to the MPS control daemon. Skip where there is none, or where a
    daemon runs already, whose clients these programs would be."""
    if not host.agent:
        raise Skip("the agent is not one of ours")
    if host.fake:
        return os.path.join(host.env["LD_LIBRARY_PATH"].split(":")[0], "bin",
                            "nvidia-cuda-mps-control")
    control = shutil.which("nvidia-cuda-mps-control")
    if not control:
        raise Skip("no nvidia-cuda-mps-control here")
    there = subprocess.run([control],
                           input="get_server_list\n",
                           text=True,
                           capture_output=True,
                           timeout=30,
                           check=False)
    if there.returncode == 0:
        raise Skip("an MPS control daemon runs already: end it for this check")
    return control


def mps(host, bounds, argv, memory):
    """Under the policy mps two programs run at once, each on its part of the multiprocessors,
    whatever they ask for themselves; a program that is no client has no share."""
    control, before = mps_control(host), dict(host.env)
    host.env.update({
        f"CUDA_MPS_{what}_DIRECTORY": os.path.join(host.scratch, "mps-" + what.lower())
        for what in ("PIPE", "LOG")
    })
    for what in ("PIPE", "LOG"):
        os.makedirs(host.env[f"CUDA_MPS_{what}_DIRECTORY"], exist_ok=True)
    host.stop_agent()
    try:
        subprocess.run([control, "-d"], env=host.env, timeout=30, check=True)
        host.start_agent("--policy", "mps")
        return mps_parts(host, bounds, argv, memory)
    finally:
        host.stop_agent()
        subprocess.run([control],
                       input="quit\n",
                       text=True,
                       env=host.env,
                       capture_output=True,
                       timeout=60,
                       check=False)
        host.env = before
        host.start_agent()


def mps_parts(host, bounds, argv, memory):
    """What programs are told and how fast they are, at a quarter and at the rest."""
    client = host.workload("driver", "client")
    raised = ["env", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=100", *client]
    elsewhere = ["env", "CUDA_MPS_PIPE_DIRECTORY=" + os.path.join(host.scratch, "none"), *client]
    quarter, rest = Share(memory, compute=0.25), Share(memory, compute=0.75)
    whole = host.one(client, Share(memory))
    told = [host.one(a, quarter)["multiprocessors"] for a in (client, raised)]
    try:
        outside = host.one(elsewhere, quarter)["mps_enabled"]
    except Failed as e:
        outside = "refused" if "cuInit: CUDA error 802" in str(e) else str(e)
    full = alone(host, argv, Share(memory), bounds.seconds)["per_s"]
    single = alone(host, argv, quarter, bounds.seconds)["per_s"] / full
    r = host.together((argv, quarter), (argv, rest), seconds=bounds.seconds + 2)
    got = [rate / full for rate in common_rates(r)]
    parts = [n / whole["multiprocessors"] for n in told]
    off = max(100 * abs(single - 0.25), 100 * abs(got[0] - 0.25), 100 * abs(got[1] - 0.75))
    holds = {
        "clients of MPS": whole["mps_enabled"] == 1,
        "told of a quarter": all(0.15 <= p <= 0.25 for p in parts),
        "held by the library": told[0] == told[1],
        "refused without MPS": outside == "refused",
        # a limit is rounded down to what the hardware has
        "fast as their parts": off <= bounds.share_points + 3,
    }
    detail = (f"{100 * single:.1f} % alone at 25 %, {100 * got[0]:.1f} and {100 * got[1]:.1f} % "
              f"together at 25 and 75 %; " +
              (", ".join(f"not {k}" for k, v in holds.items() if not v) or "all holds"))
    return all(holds.values()), detail, {
        **{k.replace(" ", "_"): v for k, v in holds.items()},
        "multiprocessors": whole["multiprocessors"],
        "multiprocessors_of_a_quarter": told,
        "outside": outside,
        "alone": single,
        "together": got,
    }


# Long kernels, and programs of several processes.


def long_kernels(host, bounds, memory):
    """A job with kernels of half a second and one with short ones, a half each.

    What the short ones have alone is measured just before and just after: on a busy host the device
    waits for their program, alone as beside.
    """
    long = host.kernels(500000, "--batch", 1, "--ahead", 1, "--seconds", 12)
    short, few = (host.kernels(250, "--ahead", 2, "--seconds", s) for s in (12, 5))
    half = Share(memory, compute=0.5)

    def rate():
        return alone(host, few, Share(memory, **WHOLE), 5)["per_s"]

    before = rate()
    r = host.together((short, half), (long, half), seconds=12)
    whole = (before + rate()) / 2
    start, end = r[0]["start_s"] + 2, min(r[0]["end_s"], r[1]["end_s"])
    got = completed(r[0], start, end) / (end - start) / whole
    theirs = 0.5 * r[1]["per_s"] * r[1]["batch"]
    detail = (f"beside kernels of 0.5 s, which get {100 * theirs:.0f} % of the device, short ones "
              f"get {100 * got:.0f} % of what they have alone; their longest wait "
              f"{r[0]['max_ms']:.0f} ms")
    return abs(got - 0.5) <= 0.1, detail, {"short": got, "long": theirs, "max_ms": r[0]["max_ms"]}


def exits(host, memory):
    """Processes that exit with work in flight, one after another, eight at a time."""
    seconds = 6 if host.fake else 30
    r = host.one(host.workload("facts_process", "exits", "--seconds", seconds, "--rounds-per-us",
                               host.rounds_per_us), Share(memory), seconds=seconds + 30)
    wrong = {code: n for code, n in r["ends"].items() if code not in ("7", str(NO_MEMORY))}
    idle = r["ends"].get(str(NO_MEMORY), 0)
    detail = (f"{r['processes'] - idle} processes, the slowest {r['slowest_s']:.2f} s; others: "
              f"{wrong}")
    if idle:
        detail += f"; {idle} found no memory"
    if r["errors"]:
        detail += f": {'; '.join(r['errors'])}"
    if not wrong and r["processes"] - idle < 50:
        raise Skip(detail)
    return not wrong, detail, r


def nccl(host, memory):
    """Two ranks on one GPU: refused by themselves, and in one job where NCCL can be told to."""
    allowed = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}
    argv = host.workload("nccl_ranks", "launch")
    plain = host.one(argv, seconds=90)
    if plain.get("absent"):
        raise Skip("no NCCL here")
    bare = host.one(argv, env=allowed, seconds=90)
    ends = {r.get("init") for r in plain["ranks"]}
    refused = {NCCL_INVALID_USAGE: True, 0: False}.get(ends.pop()) if len(ends) == 1 else None
    version, can = max(r.get("version", 0) for r in plain["ranks"]), finished(bare)
    values = {"plain": plain, "bare": bare, "version": version, "in_job": None,
              "one_device": None if refused is None else refused and can == (version >= 23000)}
    if refused is None:
        raise Skip(f"NCCL {version} does not come so far as to look: {plain['ranks']}")
    detail = f"NCCL {version}: two ranks on one GPU are {'refused' if refused else 'let in'}"
    if not can:
        return True, detail + ", also where told not to", values
    shared = host.one(argv, Share(memory), env=allowed, seconds=120)
    values.update(shared=shared, in_job=finished(shared))
    detail += (f"; told not to, {bare['seconds']:.1f} s without weir, {shared['seconds']:.1f} s in "
               "one job")
    return values["in_job"], detail, values


def finished(r):
    return all(x.get("init") == 0 and x.get("sum") == len(r["ranks"]) and not x.get("code")
               for x in r["ranks"])


def vllm(host, cap):
    host.needs("vllm")
    with host.nvml().peak() as seen:
        r = host.one(host.workload("vllm_small"), Share(f"{cap}B"), seconds=150,
                     env={"VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"})
    peak = seen.peak - seen.base
    detail = f"{r['tokens']} tokens, told of {gib(r['total_bytes'])}, at most {gib(peak)} in use"
    return r["tokens"] == 16 and r["total_bytes"] <= cap and peak <= cap, detail, {
        **r, "outside_peak_bytes": peak
    }


# Faults.


def killed(host, bounds, argv, memory):
    """kill -9 of one of two programs: the other has the device to itself."""
    whole = solo(host, argv, memory, bounds.seconds)
    half, at = Share(memory, compute=0.5), []
    victim, other = Program(host, argv, half), None
    try:
        other = Program(host, argv, half)
        deadline = time.monotonic() + READY_S
        for p in (victim, other):
            p.ready(deadline)
        for p in (victim, other):
            p.go()
        time.sleep(bounds.seconds / 2)
        os.killpg(victim.process.pid, signal.SIGKILL)
        at.append(time.monotonic())
        r = other.result(time.monotonic() + bounds.seconds + 30)
    finally:
        victim.close()
        if other:
            other.close()
    end = r["end_s"]
    after = completed(r, at[0], end) / (end - at[0] - r["bucket_s"]) / whole
    before = completed(r, r["start_s"] + 0.3, at[0]) / (at[0] - r["start_s"] - 0.3) / whole
    detail = f"{100 * before:.0f} % of the device before, {100 * after:.0f} % after"
    return after >= 0.9 and before <= 0.65, detail, {"before": before, "after": after}


def agent_dies(host, bounds, argv, longer, memory):
    """kill -9 of the agent, which weir exec or the harness starts anew: the program runs all the
    time, and is under its limit again."""
    if not host.agent:
        raise Skip("the agent is not one of ours")
    whole = solo(host, argv, memory, bounds.seconds)
    times = {}

    def during(_):
        time.sleep(2)
        times["dead"] = time.monotonic()
        host.kill_agent()
        time.sleep(2.5)
        host.start_agent()
        times["back"] = time.monotonic()

    (r,) = host.together((longer, Share(memory, compute=0.2, limit=0.5)), seconds=9, during=during)
    gone = max(0.1, times["back"] - times["dead"] - 1.2)
    dead = completed(r, times["dead"] + 1.2, times["back"]) / gone / whole
    rest = r["end_s"] - times["back"] - 1.5
    again = completed(r, times["back"] + 1.5, r["end_s"]) / rest / whole
    holds = dead > 0.05 and again <= 0.5 + bounds.share_points / 100
    detail = (f"{100 * dead:.0f} % of the device in the seconds after, "
              f"{100 * again:.0f} % under a limit of 50 % later")
    return holds, detail, {"dead": dead, "again": again}
