"""What NVIDIA's own libraries do with the driver."""

from harness import Share
from outcome import Skip
from probe import probe

OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation
LATE_S = 2  # by which one rank comes to a collective


@probe("facts: runtime", ["runtime-public"], needs=20)
def runtime(host, found):
    """The library refuses a context, or a module, that is more than the cap has room for, where it
    is asked for one by a public call. What is made through a table is there when weir first sees
    it."""
    argv = host.workload("runtime")
    bare = host.one([*argv, "--mib", "1536"], env={"CUDA_MODULE_LOADING": "EAGER"})
    if bare.get("absent"):
        raise Skip("no CUDA runtime here")
    if bare["context"]:
        raise Skip(f"the runtime makes no context: {bare['context']}")
    tight = host.one(argv, Share("32MiB"))
    module = host.one([*argv, "--mib", "1536"], Share("1GiB"),
                      env={"CUDA_MODULE_LOADING": "EAGER"})
    found.values.update(bare=bare, tight=tight, module=module)
    found.tell("runtime-public", public(bare, tight, module),
               f"runtime {bare['version']}: a context in 32 MiB gives {tight['context']}, a "
               f"variable of 1.5 GiB in 1 GiB {module['loaded']}, without a cap {bare['loaded']}")


def public(bare, tight, module):
    """Whether both are refused; None where a module is not, which may be loaded later."""
    if tight["context"] != OUT_OF_MEMORY:
        return False
    return True if bare["loaded"] == 0 and module["loaded"] == OUT_OF_MEMORY else None


@probe("facts: collectives across GPUs", ["nccl-across"], needs=60)
def across(host, found):
    """One rank comes late to a collective: the other's kernel is on its GPU until then."""
    count = host.nvml().count()
    if count < 2:
        raise Skip(f"it takes a machine with two GPUs: this one has {count}")
    r = host.one(host.workload("nccl_ranks", "launch", "--across", "--late", LATE_S, "--steps", 16),
                 seconds=90)
    if r.get("absent"):
        raise Skip("no NCCL here")
    found.values.update(r)
    found.tell("nccl-across", *stays(r["ranks"]))


def stays(ranks):
    """Whether the first rank's kernel ran until the other came, and a few words."""
    if any(x.get("init") != 0 or x.get("code") or "done_s" not in x for x in ranks):
        return None, f"the ranks did not come so far: {ranks}"
    called, done = ranks[0]["called_s"], ranks[0]["done_s"]
    words = f"called in {called:.2f} s, done after {done:.2f} s, {LATE_S} s before the other came"
    if called >= 0.5 * LATE_S:
        return None, words  # the call itself waited
    return done >= 0.8 * LATE_S, words
