"""What NVIDIA's runtime does under a cap, called directly: it makes a context, and loads a module
with a large variable.

Prints the result of each call, or that there is no runtime here.
"""

import argparse
import ctypes
import glob
import os
import sys

import meter

PTX = b"""
.version 6.0
.target %s
.address_size 64
.visible .global .align 8 .b8 big[%d];
"""


def library():
    """The runtime, where the loader or a package of Python has it."""
    found = ["libcudart.so", "libcudart.so.13", "libcudart.so.12"]
    for path in sys.path:
        found += sorted(glob.glob(os.path.join(path, "nvidia", "*", "lib", "libcudart.so.*")))
    for name in found:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def load(runtime, mib):
    """The result of loading a variable of so many MiB; None where the runtime is too old for it."""
    if not hasattr(runtime, "cudaLibraryLoadData"):
        return None
    code = None
    for target in (b"sm_50", b"sm_75", b"sm_90"):
        made = ctypes.c_void_p()
        text = PTX % (target, mib << 20)
        code = runtime.cudaLibraryLoadData(ctypes.byref(made), text, None, None, 0, None, None, 0)
        if code in (0, OUT_OF_MEMORY):
            break
    return code


OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation


def main():
    a = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--mib", type=int, default=0, help="size of the variable; 0: none is loaded")
    options = a.parse_args()
    runtime, version, loaded = library(), ctypes.c_int(), None
    if runtime is None:
        meter.result(absent=True)
        return
    runtime.cudaRuntimeGetVersion(ctypes.byref(version))
    context = runtime.cudaFree(None)
    if options.mib and not context:
        loaded = load(runtime, options.mib)
    meter.result(version=version.value, context=context, loaded=loaded)


if __name__ == "__main__":
    main()
