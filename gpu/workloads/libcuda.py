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


# The parameters of the calls: P a pointer, D a device address, a size or a handle of 64 bits, U and
# I unsigned and signed ints, B a byte. Calls that are not here get what ctypes makes of their
# arguments, in which an int of Python has 32 bits.
KINDS = {
    "P": ctypes.c_void_p,
    "D": ctypes.c_uint64,
    "U": ctypes.c_uint,
    "I": ctypes.c_int,
    "B": ctypes.c_ubyte,
}
SIGNATURES = {
    "cuInit": "U",
    "cuDriverGetVersion": "P",
    "cuDeviceGet": "PI",
    "cuDeviceGetCount": "P",
    "cuDeviceGetUuid_v2": "PI",
    "cuDeviceGetAttribute": "PII",
    "cuDeviceTotalMem_v2": "PI",
    "cuDevicePrimaryCtxRetain": "PI",
    "cuDevicePrimaryCtxRelease_v2": "I",
    "cuDevicePrimaryCtxGetState": "IPP",
    "cuCtxCreate_v2": "PUI",
    "cuCtxDestroy_v2": "P",
    "cuCtxSetCurrent": "P",
    "cuCtxGetCurrent": "P",
    "cuCtxPushCurrent_v2": "P",
    "cuCtxPopCurrent_v2": "P",
    "cuCtxSynchronize": "",
    "cuCtxSetLimit": "ID",
    "cuCtxGetLimit": "PI",
    "cuMemGetInfo_v2": "PP",
    "cuMemAlloc_v2": "PD",
    "cuMemFree_v2": "D",
    "cuMemAllocPitch_v2": "PPDDU",
    "cuMemAllocManaged": "PDU",
    "cuMemHostAlloc": "PDU",
    "cuMemFreeHost": "P",
    "cuMemGetAddressRange_v2": "PPD",
    "cuMemsetD8_v2": "DBD",
    "cuMemsetD32_v2": "DUD",
    "cuMemcpyDtoH_v2": "PDD",
    "cuMemcpyDtoHAsync_v2": "PDDP",
    "cuMemcpyDtoD_v2": "DDD",
    "cuMemcpyHtoDAsync_v2": "DPDP",
    "cuArray3DCreate_v2": "PP",
    "cuArrayDestroy": "P",
    "cuMemAllocAsync": "PDP",
    "cuMemFreeAsync": "DP",
    "cuMemAllocFromPoolAsync": "PDPP",
    "cuDeviceGetDefaultMemPool": "PI",
    "cuMemPoolCreate": "PP",
    "cuMemPoolDestroy": "P",
    "cuMemPoolTrimTo": "PD",
    "cuMemPoolGetAttribute": "PIP",
    "cuMemGetAllocationGranularity": "PPI",
    "cuMemCreate": "PDPD",
    "cuMemRelease": "D",
    "cuMemAddressReserve": "PDDDD",
    "cuMemAddressFree": "DD",
    "cuMemMap": "DDDDD",
    "cuMemUnmap": "DD",
    "cuMemExportToShareableHandle": "PDID",
    "cuMemImportFromShareableHandle": "PPI",
    "cuMemRetainAllocationHandle": "PP",
    "cuIpcGetMemHandle": "PD",
    "cuIpcCloseMemHandle": "D",
    "cuPointerGetAttribute": "PID",
    "cuMemSetAccess": "DDPD",
    "cuModuleLoadData": "PP",
    "cuModuleUnload": "P",
    "cuModuleGetFunction": "PPP",
    "cuModuleGetGlobal_v2": "PPPP",
    "cuModuleGetLoadingMode": "P",
    "cuLaunchKernel": "PUUUUUUUPPP",
    "cuStreamCreate": "PU",
    "cuStreamDestroy_v2": "P",
    "cuStreamSynchronize": "P",
    "cuStreamQuery": "P",
    "cuStreamBeginCapture_v2": "PI",
    "cuStreamEndCapture": "PP",
    "cuStreamIsCapturing": "PP",
    "cuThreadExchangeStreamCaptureMode": "P",
    "cuStreamWaitValue32_v2": "PDUU",
    "cuStreamWriteValue32_v2": "PDUU",
    "cuEventCreate": "PU",
    "cuEventDestroy_v2": "P",
    "cuEventRecord": "PP",
    "cuEventQuery": "P",
    "cuEventSynchronize": "P",
    "cuEventElapsedTime": "PPP",
    "cuGraphCreate": "PU",
    "cuGraphDestroy": "P",
    "cuGraphInstantiateWithFlags": "PPD",
    "cuGraphExecDestroy": "P",
    "cuGraphUpload": "PP",
    "cuGraphLaunch": "PP",
    "cuGraphAddMemAllocNode": "PPPDP",
    "cuGraphAddMemFreeNode": "PPPDD",
    "cuDeviceGetGraphMemAttribute": "IIP",
    "cuDeviceGraphMemTrim": "I",
    "cuGetProcAddress_v2": "PPIDP",
    "cuGetExportTable": "PP",
    "cuDeviceGetDevResource": "IPI",
    "cuDevSmResourceSplitByCount": "PPPPUU",
    "cuDevResourceGenerateDesc": "PPU",
    "cuGreenCtxCreate": "PPIU",
    "cuGreenCtxDestroy": "P",
    "cuGreenCtxStreamCreate": "PPUI",
    "cuCtxFromGreenCtx": "PP",
}


class Location(ctypes.Structure):
    """CUmemLocation."""

    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class AllocationProp(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = [("type", ctypes.c_int), ("handle_types", ctypes.c_int), ("location", Location),
                ("win32", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]


class AccessDesc(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


class Error(Exception):
    """A call of the driver failed; code is its CUresult."""

    def __init__(self, call, code):
        super().__init__(f"{call}: CUDA error {code}")
        self.code = code


class Library:
    """libcuda, not initialised."""

    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")

    def code(self, name, *arguments):
        """Call the driver and return its CUresult."""
        f = getattr(self.lib, name)
        if f.argtypes is None and name in SIGNATURES:
            f.argtypes = [KINDS[k] for k in SIGNATURES[name]]
        return f(*arguments)

    def call(self, name, *arguments):
        code = self.code(name, *arguments)
        if code:
            raise Error(name, code)

    def module_of(self, text):
        """Load a module. Drivers that have left the oldest devices behind take a later target; the
        fake driver takes the comment that a text begins with, which says what its kernels take."""
        comment, end, _ = text.partition(b"*/")
        if end and os.environ.get("WEIR_FAKE_DIR"):
            text = comment.strip(b"/*\n") + b"\n"
        for target in (b"sm_50", b"sm_75", b"sm_90"):
            module = ctypes.c_void_p()
            code = self.code("cuModuleLoadData", ctypes.byref(module),
                             ctypes.c_char_p(text.replace(b"sm_50", target)))
            if not code:
                return module
        raise Error("cuModuleLoadData", code)

    def function_of(self, module, name):
        return self.new(ctypes.c_void_p, "cuModuleGetFunction", module, name)

    def new(self, kind, name, *arguments):
        """Call what writes its result through its first parameter, and return the result."""
        made = kind()
        self.call(name, ctypes.byref(made), *arguments)
        return made


class Driver(Library):
    """libcuda with a context on device 0, as any program would open it."""

    def __init__(self):
        super().__init__()
        self.call("cuInit", 0)
        self.device = self.new(ctypes.c_int, "cuDeviceGet", 0).value
        self.context = self.new(ctypes.c_void_p, "cuDevicePrimaryCtxRetain", self.device)
        self.call("cuCtxSetCurrent", self.context)
        self.blocks, self.threads = 1, 32

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

    def event(self, flags=2):
        """An event, without timing unless the flags say otherwise."""
        return self.new(ctypes.c_void_p, "cuEventCreate", flags)

    def elapsed_ms(self, begin, end):
        ms = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(ms), begin, end)
        return ms.value

    def load(self):
        """Load the kernel."""
        self.module = self.module_of(PTX)
        self.function = self.function_of(self.module, b"spin")
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
