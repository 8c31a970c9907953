"""PyTorch as programs use it, one case a run: python with_torch.py CASE.

Values come from the device only where copies brought them there: it runs no kernel, and PyTorch
fills by kernels.
"""

import os
import signal
import sys
import threading

import torch

from say import memory as size, show

MIB = 1 << 20


def same(what, *values):
    """A line, and the end of the program where it says that something does not hold."""
    show(what, " ".join(str(v) for v in values))
    if any(v is False for v in values):
        sys.exit(f"{what}: does not hold")


def pattern(count, seed=0):
    return torch.randint(0, 256, (count,), dtype=torch.uint8,
                         generator=torch.Generator().manual_seed(seed))


def devices():
    """What a program asks before it does anything."""
    same("available", torch.cuda.is_available(), torch.cuda.device_count())
    p = torch.cuda.get_device_properties(0)
    same("properties", p.name, p.major, p.minor, p.multi_processor_count, p.uuid)
    same("bus", torch.cuda.get_device_properties(0).pci_bus_id)
    same("versions", torch.version.cuda, torch.cuda.nccl.version(), torch.backends.cudnn.version())
    same("capability", torch.cuda.get_device_capability(), torch.cuda.is_bf16_supported())
    same("nvml", torch.cuda.utilization() <= 100)
    free, total = torch.cuda.mem_get_info()
    size("total", total)
    size("total", p.total_memory)
    size("free", free)


def fill(step=256 * MIB):
    """Allocate until PyTorch says that there is no more; what is held, and the error."""
    held = []
    try:
        while True:
            held.append(torch.empty(step, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError as e:
        return held, str(e)


def memory():
    """The caching allocator to the cap, its error, and going on after it."""
    held, error = fill()
    size("most", torch.cuda.memory_reserved())
    same("error", error.split(".")[0])
    free, total = torch.cuda.mem_get_info()
    size("total", total)
    again = len(held)
    held.clear()
    same("cached", torch.cuda.memory_reserved() > 0, torch.cuda.memory_allocated())
    torch.cuda.empty_cache()
    same("emptied", torch.cuda.memory_reserved())
    held, error = fill()
    same("again", len(held) == again)
    held.clear()
    small = [torch.empty(MIB, dtype=torch.uint8, device="cuda") for _ in range(100)]
    same("small", len(small), torch.cuda.memory_stats()["num_ooms"])
    try:
        torch.cuda.set_per_process_memory_fraction(0.5)
        torch.empty(total * 3 // 4, dtype=torch.uint8, device="cuda")
        same("fraction", "granted")
    except torch.OutOfMemoryError:
        same("fraction", "refused")


def contents():
    """Bytes to the device, about on it, and back."""
    x = pattern(3 * MIB + 5)
    y = x.cuda()
    z = torch.empty_like(y)
    z.copy_(y)
    same("round trip", torch.equal(z.cpu(), x))
    pinned = x.pin_memory()
    y = pinned.to("cuda", non_blocking=True)
    back = torch.empty_like(pinned).pin_memory()
    back.copy_(y, non_blocking=True)
    torch.cuda.synchronize()
    same("pinned", pinned.is_pinned(), torch.equal(back, x))
    y[MIB:2 * MIB].copy_(x[:MIB])
    x[MIB:2 * MIB] = x[:MIB].clone()
    same("part", torch.equal(y.cpu(), x))
    rows = pattern(1024 * 1024, 1).view(1024, 1024)
    same("slice", torch.equal(rows.cuda()[100:200].cpu(), rows[100:200]))


def streams():
    """Streams and events: order, priorities, and time between two of them."""
    a, b = torch.cuda.Stream(), torch.cuda.Stream(priority=-1)
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    x = pattern(64 * MIB).pin_memory()
    y = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    with torch.cuda.stream(a):
        first.record()
        y.copy_(x, non_blocking=True)
        last.record()
    b.wait_event(last)
    with torch.cuda.stream(b):
        z = y.clone()
        y.record_stream(b)
    b.synchronize()
    same("order", torch.equal(z.cpu(), x), first.query(), last.query(), a.query())
    same("time", first.elapsed_time(last) > 1)
    done = threading.Event()
    threads = [threading.Thread(target=lambda: z.clone().cpu()) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    done.set()
    same("threads", done.is_set())


def graphs():
    """A captured graph of copies and fills, replayed with other contents, with its own pool."""
    x = torch.zeros(MIB, dtype=torch.uint8, device="cuda")
    y = torch.empty_like(x)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y.copy_(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y.copy_(x)
        z = y.clone()
    good = []
    for seed in range(20):
        source = pattern(MIB, seed)
        x.copy_(source)
        graph.replay()
        good.append(torch.equal(z.cpu(), source) and torch.equal(y.cpu(), source))
    same("replays", all(good))
    graph.reset()
    same("after", torch.equal(x.clone().cpu(), source))
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            torch.cuda.synchronize()
    except RuntimeError as e:
        same("refused", "captur" in str(e))
    same("alive", torch.equal(x.clone().cpu(), source))


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return pattern(64 * 1024, i)


def loader():
    """Workers forked from a process that uses CUDA, and batches in pinned memory."""
    torch.empty(1, device="cuda")
    batches = torch.utils.data.DataLoader(Samples(), batch_size=8, num_workers=2, pin_memory=True,
                                          multiprocessing_context="fork")
    good, pinned, at = [], [], 0
    for _ in range(2):
        for batch in batches:
            there = batch.to("cuda", non_blocking=True)
            good.append(torch.equal(there.cpu(), batch))
            pinned.append(batch.is_pinned())
            at += len(batch)
    same("batches", len(good), at, all(good), all(pinned))


def consumer(inbox, outbox):
    tensor = inbox.get()
    outbox.put((tensor.device.type, bytes(tensor[:16].cpu().tolist())))
    tensor[:8].copy_(torch.arange(8, dtype=torch.uint8))
    torch.cuda.synchronize()
    del tensor
    outbox.put(torch.cuda.mem_get_info()[1])


def processes():
    """A tensor of this process in another, which is of the same job."""
    many = torch.multiprocessing.get_context("spawn")
    inbox, outbox = many.Queue(), many.Queue()
    other = many.Process(target=consumer, args=(inbox, outbox))
    other.start()
    x = pattern(4 * MIB)
    y = x.cuda()
    inbox.put(y)
    kind, head = outbox.get(timeout=120)
    same("seen", kind, head == bytes(x[:16].tolist()))
    total = outbox.get(timeout=120)
    other.join()
    same("written", y[:8].tolist(), torch.equal(y[8:].cpu(), x[8:]), other.exitcode)
    size("total", total)


def in_child():
    try:
        torch.empty(1, device="cuda")
    except RuntimeError as e:
        os._exit(7 if "forked subprocess" in str(e) else 8)
    os._exit(9)


def ends():
    """How programs end, with work in flight; and a child that may not use CUDA."""
    x = torch.zeros(64 * MIB, dtype=torch.uint8, device="cuda")
    for _ in range(50):
        x = x.clone()
    how = sys.argv[2]
    if how == "fork":
        pid = os.fork()
        if not pid:
            in_child()
        same("child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    elif how == "exit":
        sys.exit(3)
    elif how == "raise":
        raise ValueError("for the exit code")
    elif how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "abort":
        os.abort()
    elif how == "hard":
        os._exit(5)
    elif how == "thread":
        threading.Thread(target=lambda: [x.clone() for _ in range(200)]).start()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
