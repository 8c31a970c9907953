"""cuda-bindings and cuda-core: runtime and driver as Python calls, and a program compiled."""

from cuda.bindings import driver, nvrtc, runtime
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

from say import memory, must, show

SOURCE = r"""
extern "C" __global__ void scale(float *p, float by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] *= by;
}
"""


def the_runtime():
    show("runtime devices", must(runtime.cudaGetDeviceCount()))
    free, total = must(runtime.cudaMemGetInfo())
    memory("total", total)
    pointer = must(runtime.cudaMalloc(1 << 20))
    host = bytearray(b"\x07" * 4096)
    kind = runtime.cudaMemcpyKind
    must(runtime.cudaMemcpy(pointer, bytes(host), 4096, kind.cudaMemcpyHostToDevice))
    back = bytearray(4096)
    must(runtime.cudaMemcpy(back, pointer, 4096, kind.cudaMemcpyDeviceToHost))
    show("copied", back == host)
    stream = must(runtime.cudaStreamCreate())
    must(runtime.cudaMemsetAsync(pointer, 1, 4096, stream))
    must(runtime.cudaStreamSynchronize(stream))
    must(runtime.cudaStreamDestroy(stream))
    must(runtime.cudaFree(pointer))
    error, = runtime.cudaMalloc(1 << 50)[:1]
    show("too much", error.name)


def the_driver():
    must(driver.cuInit(0))
    device = must(driver.cuDeviceGet(0))
    show("name", must(driver.cuDeviceGetName(64, device)).split(b"\0")[0].decode())
    context = must(driver.cuDevicePrimaryCtxRetain(device))
    must(driver.cuCtxSetCurrent(context))
    program = must(nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"scale.cu", 0, [], []))
    must(nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=sm_90"]))
    image = bytearray(must(nvrtc.nvrtcGetCUBINSize(program)))
    must(nvrtc.nvrtcGetCUBIN(program, image))
    module = must(driver.cuModuleLoadData(bytes(image)))
    function = must(driver.cuModuleGetFunction(module, b"scale"))
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
    show("threads", must(driver.cuFuncGetAttribute(attribute, function)))
    show("second parameter", must(driver.cuFuncGetParamInfo(function, 1)))
    must(driver.cuModuleUnload(module))
    must(driver.cuDevicePrimaryCtxRelease(device))


def the_core():
    device = Device()
    device.set_current()
    show("core capability", tuple(device.compute_capability))
    stream = device.create_stream()
    options = ProgramOptions(std="c++17", arch="sm_90")
    kernel = Program(SOURCE, "c++", options=options).compile("cubin").get_kernel("scale")
    show("core registers", kernel.attributes.num_regs > 0)
    buffer = device.allocate(1 << 20, stream=stream)
    launch(stream, LaunchConfig(grid=4, block=64), kernel, buffer.handle, 2.0, 256)
    event = stream.record()
    stream.sync()
    show("core done", event.is_done)
    buffer.close(stream)
    stream.close()


the_runtime()
the_driver()
the_core()
