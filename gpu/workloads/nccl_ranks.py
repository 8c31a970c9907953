"""NCCL between processes on one GPU, or each on one of its own, called directly: each rank adds up
the same buffer many times.

launch   start the ranks, and print what they came to
rank     one rank; the communicator's name is passed through a file
"""

import argparse
import ctypes
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

import libcuda
import meter

FLOAT32, SUM = 7, 0
NOT_READY = 600  # CUDA_ERROR_NOT_READY
COUNT = 1 << 20
ONE = 0x3F800000  # as a float


class UniqueId(ctypes.Structure):
    """ncclUniqueId."""

    _fields_ = [("bytes", ctypes.c_ubyte * 128)]


def library():
    """NCCL, where the loader or a package of Python has it."""
    found = ["libnccl.so.2"]
    for path in sys.path:
        found += glob.glob(os.path.join(path, "nvidia", "nccl", "lib", "libnccl.so.2"))
    for name in found:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def unique(nccl, path, rank):
    """The communicator's name, which the first rank makes."""
    name = UniqueId()
    if rank == 0:
        code = nccl.ncclGetUniqueId(ctypes.byref(name))
        if code:
            raise SystemExit(f"ncclGetUniqueId: {code}")
        with open(path + ".part", "wb") as f:
            f.write(bytes(name.bytes))
        os.replace(path + ".part", path)
        return name
    until = time.monotonic() + 60
    while not os.path.exists(path):
        if time.monotonic() > until:
            raise SystemExit("the first rank does not come")
        time.sleep(0.01)
    with open(path, "rb") as f:
        return UniqueId((ctypes.c_ubyte * 128).from_buffer_copy(f.read()))


def rank(options):
    nccl, d = library(), libcuda.Driver()
    nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
    nccl.ncclAllReduce.argtypes = [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
        ctypes.c_void_p, ctypes.c_void_p
    ]
    version, comm = ctypes.c_int(), ctypes.c_void_p()
    nccl.ncclGetVersion(ctypes.byref(version))
    name = unique(nccl, options.name, options.rank)
    code = nccl.ncclCommInitRank(ctypes.byref(comm), options.ranks, name, options.rank)
    if code:
        meter.result(version=version.value, init=code)
        return
    source, target, stream = d.alloc(4 * COUNT), d.alloc(4 * COUNT), d.stream()
    d.call("cuMemsetD32_v2", source, ONE, COUNT)
    d.synchronize()

    def add():
        return nccl.ncclAllReduce(source.value, target.value, COUNT, FLOAT32, SUM, comm, stream)

    times = late(d, stream, add, options) if options.late else {}
    done, code = 0, 0
    while done < options.steps:
        code = add()
        if code:
            break
        done += 1
        if done % 16 == 0:
            d.call("cuStreamSynchronize", stream)
    d.call("cuStreamSynchronize", stream)
    last = ctypes.c_float()
    d.call("cuMemcpyDtoH_v2", ctypes.byref(last), target.value + 4 * (COUNT - 1), 4)
    meter.result(version=version.value, init=0, code=code, steps=done, sum=last.value, **times)


def late(d, stream, add, options):
    """All but the first rank come late to a collective after the first one, which connects them:
    how long the call took, and its work."""
    add()
    d.call("cuStreamSynchronize", stream)
    if options.rank:
        time.sleep(options.late)
    began = time.monotonic()
    add()
    called = time.monotonic() - began
    while d.code("cuStreamQuery", stream) == NOT_READY:
        time.sleep(0.001)
    return {"called_s": called, "done_s": time.monotonic() - began}


def own(n, options):
    """The environment of a rank by itself."""
    return {"CUDA_VISIBLE_DEVICES": str(n)} if options.across else {}


def launch(options):
    if library() is None:
        meter.result(absent=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        argv = [
            sys.executable, os.path.abspath(__file__), "rank", "--ranks", str(options.ranks),
            "--seconds", str(options.seconds), "--steps", str(options.steps), "--name",
            os.path.join(folder, "name"), "--late", str(options.late)
        ]
        began = time.monotonic()
        ranks = [
            subprocess.Popen([*argv, "--rank", str(n)], stdout=subprocess.PIPE, text=True,
                             env={**os.environ, **own(n, options)}) for n in range(options.ranks)
        ]
        ends = []
        for p in ranks:
            try:
                left = began + options.seconds + 40 - time.monotonic()
                out, _ = p.communicate(timeout=max(1, left))
                lines = out.strip().splitlines()
                ends.append(json.loads(lines[-1]) if lines else {"exit": p.returncode})
            except subprocess.TimeoutExpired:
                ends.append({"hung": True})
        for p in ranks:
            if p.poll() is None:
                p.kill()
                p.wait()
        meter.result(ranks=ends, seconds=time.monotonic() - began)


def main():
    a = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    what = {"launch": launch, "rank": rank}
    a.add_argument("what", choices=what)
    a.add_argument("--ranks", type=int, default=2)
    a.add_argument("--rank", type=int, default=0)
    a.add_argument("--steps", type=int, default=400)
    a.add_argument("--seconds", type=float, default=10)
    a.add_argument("--name", default="")
    a.add_argument("--across", action="store_true", help="each rank has a GPU of its own")
    a.add_argument("--late", type=float, default=0, help="seconds by which others come late once")
    options = a.parse_args()
    what[options.what](options)


if __name__ == "__main__":
    main()
