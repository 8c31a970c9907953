"""The part of the CUDA driver API that the workloads without a framework call, through ctypes."""

import ctypes
import os

OUT_OF_MEMORY = 2

# One thread block in a chain of dependent arithmetic: it takes time in proportion to its parameter,
# and only while it is on the device, so that it measures device time also under time slicing. The
# fake driver reads the comment instead: there a round is a nanosecond.
PTX = b"""
/*
kernel spin ns=arg0
*/
.version 6.0
.target sm_50
.address_size 64
.visible .entry spin(.param .u64 rounds, .param .u64 out)
{
  .reg .u64 %r<3>;
  .reg .f32 %f<2>;
  .reg .pred %p;
  ld.param.u64 %r0, [rounds];
  ld.param.u64 %r1, [out];
  mov.f32 %f0, 0f3f800000;
  mov.u64 %r2, 0;
next:
  fma.rn.f32 %f0, %f0, %f0, %f0;
  fma.rn.f32 %f0, %f0, %f0, %f0;
  fma.rn.f32 %f0, %f0, %f0, %f0;
  fma.rn.f32 %f0, %f0, %f0, %f0;
  add.u64 %r2, %r2, 1;
  setp.lt.u64 %p, %r2, %r0;
  @%p bra next;
  st.global.f32 [%r1], %f0;
  ret;
}
"""


class Error(Exception):
    """A call of the driver failed; code is its CUresult."""

    def __init__(self, call, code):
        super().__init__(f"{call}: CUDA error {code}")
        self.code = code


class Driver:
    """libcuda with a context on device 0, as any program would open it."""

    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.device = device.value
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self.call("cuCtxSetCurrent", context)
        self.module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        self.blocks, self.threads = 1, 32

    def call(self, name, *arguments):
        code = getattr(self.lib, name)(*arguments)
        if code:
            raise Error(name, code)

    def memory(self):
        """Free and total bytes, as the program is told."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def attribute(self, number):
        """A CUdevice_attribute."""
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), number, self.device)
        return value.value

    def total(self):
        total = ctypes.c_size_t()
        self.call("cuDeviceTotalMem_v2", ctypes.byref(total), self.device)
        return total.value

    def alloc(self, size):
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer

    def free(self, pointer):
        self.call("cuMemFree_v2", pointer)

    def synchronize(self):
        self.call("cuCtxSynchronize")

    def stream(self):
        s = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(s), 1)
        return s

    def event(self):
        e = ctypes.c_void_p()
        self.call("cuEventCreate", ctypes.byref(e), 2)  # without timing
        return e

    def load(self):
        """Load the kernel."""
        self.call("cuModuleLoadData", ctypes.byref(self.module), ctypes.c_char_p(PTX))
        self.call("cuModuleGetFunction", ctypes.byref(self.function), self.module, b"spin")
        self.out = self.alloc(256)

    def parameters(self, rounds):
        """The kernel's parameters; they must be kept for as long as they are used."""
        count, out = ctypes.c_uint64(rounds), self.out
        pointers = (ctypes.c_void_p * 2)(ctypes.addressof(count), ctypes.addressof(out))
        return pointers, count, out

    def launch(self, parameters, stream=None):
        self.call("cuLaunchKernel", self.function, self.blocks, 1, 1, self.threads, 1, 1, 0, stream,
                  parameters[0], None)

    def graph(self, parameters, launches):
        """Capture launches into a graph and return what cuGraphLaunch takes."""
        stream, graph, ready = self.stream(), ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuStreamBeginCapture_v2", stream, 1)
        for _ in range(launches):
            self.launch(parameters, stream)
        self.call("cuStreamEndCapture", stream, ctypes.byref(graph))
        self.call("cuGraphInstantiateWithFlags", ctypes.byref(ready), graph, ctypes.c_ulonglong(0))
        return ready, stream

    def launch_graph(self, ready, stream):
        self.call("cuGraphLaunch", ready, stream)


def nvml_memory():
    """Total and used bytes of device 0 as nvidia-smi asks for them, None where there is no
    management library."""

    class Memory(ctypes.Structure):
        _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong),
                    ("used", ctypes.c_ulonglong)]

    try:
        lib = ctypes.CDLL(os.environ.get("WEIR_NVML") or "libnvidia-ml.so.1")
    except OSError:
        return None
    handle, memory = ctypes.c_void_p(), Memory()
    for name, arguments in (
        ("nvmlInit_v2", ()),
        ("nvmlDeviceGetHandleByIndex_v2", (0, ctypes.byref(handle))),
        ("nvmlDeviceGetMemoryInfo", (handle, ctypes.byref(memory))),
    ):
        code = getattr(lib, name)(*arguments)
        if code:
            raise Error(name, code)
    return memory.total, memory.used
