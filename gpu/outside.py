"""What the management library tells of device 0, for checks that do not take a program's word."""

import contextlib
import ctypes
import os
import threading
import time

NOT_TOLD = 2**64 - 1


class Memory(ctypes.Structure):
    _fields_ = [(n, ctypes.c_ulonglong) for n in ("total", "free", "used")]


class Memory2(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint)] + [(n, ctypes.c_ulonglong)
                                               for n in ("total", "reserved", "free", "used")]


class Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong),
                ("gpu_instance", ctypes.c_uint), ("compute_instance", ctypes.c_uint)]


class SetLimits(ctypes.Structure):
    """nvmlSetMemoryLimits_v1_t."""

    _fields_ = [("group", ctypes.c_char_p), ("soft", ctypes.c_ulonglong),
                ("hard", ctypes.c_ulonglong)]


class GetLimits(ctypes.Structure):
    """nvmlGetMemoryLimits_v1_t."""

    _fields_ = [*SetLimits._fields_, ("used", ctypes.c_ulonglong)]


NO_LIMIT = 2**64 - 1


class Unavailable(Exception):
    """There is no management library, or it does not tell."""


class Outside:
    """Device 0 by NVML's count, which is that of the bus."""

    def __init__(self, path="libnvidia-ml.so.1"):
        try:
            self.lib = ctypes.CDLL(path)
        except OSError as e:
            raise Unavailable(str(e)) from None
        self.handle = ctypes.c_void_p()
        self.call("nvmlInit_v2")
        self.call("nvmlDeviceGetHandleByIndex_v2", 0, ctypes.byref(self.handle))

    def call(self, name, *arguments):
        try:
            code = getattr(self.lib, name)(*arguments)
        except AttributeError:
            raise Unavailable(f"no {name} here") from None
        if code:
            raise Unavailable(f"{name}: NVML error {code}")

    def has(self, name):
        return hasattr(self.lib, name)

    def used(self):
        """Bytes that all processes hold, and what the driver reserves."""
        m = Memory()
        self.call("nvmlDeviceGetMemoryInfo", self.handle, ctypes.byref(m))
        return m.used

    def memory(self):
        m = Memory2(version=ctypes.sizeof(Memory2) | 2 << 24)
        self.call("nvmlDeviceGetMemoryInfo_v2", self.handle, ctypes.byref(m))
        return {n: getattr(m, n) for n in ("total", "reserved", "free", "used")}

    def processes(self):
        """Bytes of each process by its number; None where NVML knows the process only."""
        count, found = ctypes.c_uint(512), (Process * 512)()
        self.call("nvmlDeviceGetComputeRunningProcesses_v3", self.handle, ctypes.byref(count),
                  found)
        return {p.pid: None if p.used == NOT_TOLD else p.used for p in found[:count.value]}

    def uuid(self, index=0):
        handle, text = ctypes.c_void_p(), ctypes.create_string_buffer(96)
        self.call("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(handle))
        self.call("nvmlDeviceGetUUID", handle, text, len(text))
        return text.value.decode()

    def count(self):
        n = ctypes.c_uint()
        self.call("nvmlDeviceGetCount_v2", ctypes.byref(n))
        return n.value

    def compute_mode(self):
        mode = ctypes.c_uint()
        self.call("nvmlDeviceGetComputeMode", self.handle, ctypes.byref(mode))
        return mode.value

    def limit(self, group, hard):
        """Have the driver limit what a control group holds; NO_LIMIT takes it back."""
        limits = SetLimits(group.encode(), 0, hard)
        self.call("nvmlDeviceSetMemoryLimits_v1", self.handle, ctypes.byref(limits))

    def limited(self, group):
        """A group's limit; NO_LIMIT, too, where the driver says that it supports none, as it may of
        a group that never had one."""
        got = GetLimits(group.encode(), 0, NO_LIMIT, 0)
        with contextlib.suppress(Unavailable):
            self.call("nvmlDeviceGetMemoryLimits_v1", self.handle, ctypes.byref(got))
        return got.hard

    def driver(self):
        text = ctypes.create_string_buffer(96)
        self.call("nvmlSystemGetDriverVersion", text, len(text))
        return text.value.decode()

    def settled(self, seconds=3, quiet=0.15):
        """The used bytes once they have not changed for a while: what programs that have ended held
        may come back some time later."""
        begin = since = time.monotonic()
        last = self.used()
        while time.monotonic() - since < quiet and time.monotonic() - begin < seconds:
            time.sleep(0.01)
            now = self.used()
            if now != last:
                last, since = now, time.monotonic()
        return last

    def until(self, holds, seconds, every=0.002):
        """Ask for the used bytes until holds says so of them; seconds it took, None if it did not.
        """
        begin = time.monotonic()
        while time.monotonic() - begin < seconds:
            if holds(self.used()):
                return time.monotonic() - begin
            time.sleep(every)
        return None

    @contextlib.contextmanager
    def peak(self, every=0.002):
        """Look again and again meanwhile, and keep the most that was seen in use."""
        seen, done = Seen(self), threading.Event()

        def look():
            while not done.wait(every):
                seen.look()

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            yield seen
        finally:
            done.set()
            thread.join()
            seen.look()


class Seen:
    """The bytes in use: at first, and the most since."""

    def __init__(self, nvml):
        self.nvml = nvml
        self.base = self.peak = nvml.used()

    def look(self):
        self.peak = max(self.peak, self.nvml.used())


def of_host(host):
    """The library of the driver that the programs of the checks meet."""
    if not host.fake:
        return Outside(os.environ.get("WEIR_NVML") or "libnvidia-ml.so.1")
    for name, value in host.env.items():
        if name.startswith("WEIR_FAKE"):
            os.environ[name] = value
    return Outside(os.path.join(host.env["LD_LIBRARY_PATH"].split(":")[0], "libnvidia-ml.so.1"))
