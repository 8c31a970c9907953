// The part of the CUDA driver API that the fake libcuda offers, declared as NVIDIA's cuda.h has it:
// names, values and layouts are the ABI that programs are compiled against, and are kept exact so
// that one search finds both sides. Programs that run on the fake driver include this header
// instead of cuda.h and take the calls from the library at run time.
#ifndef WEIR_FAKECUDA_H
#define WEIR_FAKECUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FK_RESULTS(X) \
	X(SUCCESS, 0) X(ERROR_INVALID_VALUE, 1) X(ERROR_OUT_OF_MEMORY, 2) X(ERROR_NOT_INITIALIZED, 3) \
	X(ERROR_DEINITIALIZED, 4) X(ERROR_PROFILER_DISABLED, 5) X(ERROR_PROFILER_NOT_INITIALIZED, 6) \
	X(ERROR_PROFILER_ALREADY_STARTED, 7) X(ERROR_PROFILER_ALREADY_STOPPED, 8) \
	X(ERROR_STUB_LIBRARY, 34) X(ERROR_DEVICE_UNAVAILABLE, 46) X(ERROR_NO_DEVICE, 100) \
	X(ERROR_INVALID_DEVICE, 101) X(ERROR_DEVICE_NOT_LICENSED, 102) X(ERROR_INVALID_IMAGE, 200) \
	X(ERROR_INVALID_CONTEXT, 201) X(ERROR_CONTEXT_ALREADY_CURRENT, 202) X(ERROR_MAP_FAILED, 205) \
	X(ERROR_UNMAP_FAILED, 206) X(ERROR_ARRAY_IS_MAPPED, 207) X(ERROR_ALREADY_MAPPED, 208) \
	X(ERROR_NO_BINARY_FOR_GPU, 209) X(ERROR_ALREADY_ACQUIRED, 210) X(ERROR_NOT_MAPPED, 211) \
	X(ERROR_NOT_MAPPED_AS_ARRAY, 212) X(ERROR_NOT_MAPPED_AS_POINTER, 213) \
	X(ERROR_ECC_UNCORRECTABLE, 214) X(ERROR_UNSUPPORTED_LIMIT, 215) \
	X(ERROR_CONTEXT_ALREADY_IN_USE, 216) X(ERROR_PEER_ACCESS_UNSUPPORTED, 217) \
	X(ERROR_INVALID_PTX, 218) X(ERROR_INVALID_GRAPHICS_CONTEXT, 219) \
	X(ERROR_NVLINK_UNCORRECTABLE, 220) X(ERROR_JIT_COMPILER_NOT_FOUND, 221) \
	X(ERROR_UNSUPPORTED_PTX_VERSION, 222) X(ERROR_JIT_COMPILATION_DISABLED, 223) \
	X(ERROR_UNSUPPORTED_EXEC_AFFINITY, 224) X(ERROR_UNSUPPORTED_DEVSIDE_SYNC, 225) \
	X(ERROR_CONTAINED, 226) X(ERROR_INVALID_SOURCE, 300) X(ERROR_FILE_NOT_FOUND, 301) \
	X(ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, 302) X(ERROR_SHARED_OBJECT_INIT_FAILED, 303) \
	X(ERROR_OPERATING_SYSTEM, 304) X(ERROR_INVALID_HANDLE, 400) X(ERROR_ILLEGAL_STATE, 401) \
	X(ERROR_LOSSY_QUERY, 402) X(ERROR_NOT_FOUND, 500) X(ERROR_NOT_READY, 600) \
	X(ERROR_ILLEGAL_ADDRESS, 700) X(ERROR_LAUNCH_OUT_OF_RESOURCES, 701) \
	X(ERROR_LAUNCH_TIMEOUT, 702) X(ERROR_LAUNCH_INCOMPATIBLE_TEXTURING, 703) \
	X(ERROR_PEER_ACCESS_ALREADY_ENABLED, 704) X(ERROR_PEER_ACCESS_NOT_ENABLED, 705) \
	X(ERROR_PRIMARY_CONTEXT_ACTIVE, 708) X(ERROR_CONTEXT_IS_DESTROYED, 709) X(ERROR_ASSERT, 710) \
	X(ERROR_TOO_MANY_PEERS, 711) X(ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712) \
	X(ERROR_HOST_MEMORY_NOT_REGISTERED, 713) X(ERROR_HARDWARE_STACK_ERROR, 714) \
	X(ERROR_ILLEGAL_INSTRUCTION, 715) X(ERROR_MISALIGNED_ADDRESS, 716) \
	X(ERROR_INVALID_ADDRESS_SPACE, 717) X(ERROR_INVALID_PC, 718) X(ERROR_LAUNCH_FAILED, 719) \
	X(ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, 720) X(ERROR_TENSOR_MEMORY_LEAK, 721) \
	X(ERROR_NOT_PERMITTED, 800) X(ERROR_NOT_SUPPORTED, 801) X(ERROR_SYSTEM_NOT_READY, 802) \
	X(ERROR_SYSTEM_DRIVER_MISMATCH, 803) X(ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, 804) \
	X(ERROR_MPS_CONNECTION_FAILED, 805) X(ERROR_MPS_RPC_FAILURE, 806) \
	X(ERROR_MPS_SERVER_NOT_READY, 807) X(ERROR_MPS_MAX_CLIENTS_REACHED, 808) \
	X(ERROR_MPS_MAX_CONNECTIONS_REACHED, 809) X(ERROR_MPS_CLIENT_TERMINATED, 810) \
	X(ERROR_CDP_NOT_SUPPORTED, 811) X(ERROR_CDP_VERSION_MISMATCH, 812) \
	X(ERROR_STREAM_CAPTURE_UNSUPPORTED, 900) X(ERROR_STREAM_CAPTURE_INVALIDATED, 901) \
	X(ERROR_STREAM_CAPTURE_MERGE, 902) X(ERROR_STREAM_CAPTURE_UNMATCHED, 903) \
	X(ERROR_STREAM_CAPTURE_UNJOINED, 904) X(ERROR_STREAM_CAPTURE_ISOLATION, 905) \
	X(ERROR_STREAM_CAPTURE_IMPLICIT, 906) X(ERROR_CAPTURED_EVENT, 907) \
	X(ERROR_STREAM_CAPTURE_WRONG_THREAD, 908) X(ERROR_TIMEOUT, 909) \
	X(ERROR_GRAPH_EXEC_UPDATE_FAILURE, 910) X(ERROR_EXTERNAL_DEVICE, 911) \
	X(ERROR_INVALID_CLUSTER_SIZE, 912) X(ERROR_FUNCTION_NOT_LOADED, 913) \
	X(ERROR_INVALID_RESOURCE_TYPE, 914) X(ERROR_INVALID_RESOURCE_CONFIGURATION, 915) \
	X(ERROR_KEY_ROTATION, 916) X(ERROR_STREAM_DETACHED, 917) X(ERROR_UNKNOWN, 999)

typedef enum {
#define FK_RESULT(name, value) CUDA_##name = value,
	FK_RESULTS(FK_RESULT)
#undef FK_RESULT
} CUresult;

typedef unsigned long long CUdeviceptr;
typedef unsigned int CUdeviceptr_v1;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef unsigned long long CUtexObject, CUsurfObject;
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUlib_st *CUlibrary;
typedef struct CUfunc_st *CUfunction;
typedef struct CUfunc_st *CUkernel;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUarray_st *CUarray;
typedef struct CUmipmappedArray_st *CUmipmappedArray;
typedef struct CUextMemory_st *CUexternalMemory;
typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUdevResourceDesc_st *CUdevResourceDesc;
typedef struct {
	int type; // 1: multiprocessors
	unsigned char padding[92];
	union {
		struct { unsigned int smCount; } sm;
		unsigned char room[48];
	};
} CUdevResource;
typedef struct { char bytes[16]; } CUuuid;
typedef struct { char reserved[64]; } CUipcMemHandle, CUipcEventHandle;
typedef void (*CUhostFn)(void *data);
typedef void (*CUstreamCallback)(CUstream stream, CUresult status, void *data);

#define CU_STREAM_LEGACY ((CUstream)0x1)
#define CU_STREAM_PER_THREAD ((CUstream)0x2)
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)1)

enum { CU_CTX_SCHED_SPIN = 1, CU_CTX_SCHED_YIELD = 2, CU_CTX_SCHED_BLOCKING_SYNC = 4 };
enum { CU_LIMIT_STACK_SIZE = 0, CU_LIMIT_PRINTF_FIFO_SIZE = 1, CU_LIMIT_MALLOC_HEAP_SIZE = 2 };
enum { CU_GREEN_CTX_DEFAULT_STREAM = 1 };
enum { CU_STREAM_DEFAULT = 0, CU_STREAM_NON_BLOCKING = 1 };
enum {
	CU_EVENT_DEFAULT = 0,
	CU_EVENT_BLOCKING_SYNC = 1,
	CU_EVENT_DISABLE_TIMING = 2,
	CU_EVENT_INTERPROCESS = 4
};
enum { CU_GET_PROC_ADDRESS_LEGACY_STREAM = 1, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 2 };
typedef enum {
	CU_GET_PROC_ADDRESS_SUCCESS,
	CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND,
	CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT,
} CUdriverProcAddressQueryResult;
typedef enum {
	CU_STREAM_CAPTURE_STATUS_NONE,
	CU_STREAM_CAPTURE_STATUS_ACTIVE,
	CU_STREAM_CAPTURE_STATUS_INVALIDATED
} CUstreamCaptureStatus;
typedef enum {
	CU_STREAM_CAPTURE_MODE_GLOBAL,
	CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
	CU_STREAM_CAPTURE_MODE_RELAXED
} CUstreamCaptureMode;
typedef enum {
	CU_MEMORYTYPE_HOST = 1,
	CU_MEMORYTYPE_DEVICE,
	CU_MEMORYTYPE_ARRAY,
	CU_MEMORYTYPE_UNIFIED
} CUmemorytype;
typedef enum {
	CU_MEM_LOCATION_TYPE_INVALID,
	CU_MEM_LOCATION_TYPE_DEVICE,
	CU_MEM_LOCATION_TYPE_HOST,
	CU_MEM_LOCATION_TYPE_HOST_NUMA,
	CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT,
} CUmemLocationType;
enum { CU_MEM_ALLOCATION_TYPE_PINNED = 1 };
enum { CU_MEM_HANDLE_TYPE_NONE = 0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1 };
enum { CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD = 1 };
enum { CU_MEM_ATTACH_GLOBAL = 1 };
typedef enum {
	CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES = 1,
	CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
	CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
	CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
	CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
	CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH,
	CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
	CU_MEMPOOL_ATTR_USED_MEM_HIGH,
} CUmemPool_attribute;
typedef enum {
	CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT,
	CU_GRAPH_MEM_ATTR_USED_MEM_HIGH,
	CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
	CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH,
} CUgraphMem_attribute;
typedef enum {
	CU_GRAPH_NODE_TYPE_KERNEL,
	CU_GRAPH_NODE_TYPE_MEMCPY,
	CU_GRAPH_NODE_TYPE_MEMSET,
	CU_GRAPH_NODE_TYPE_HOST,
	CU_GRAPH_NODE_TYPE_GRAPH,
	CU_GRAPH_NODE_TYPE_EMPTY,
	CU_GRAPH_NODE_TYPE_WAIT_EVENT,
	CU_GRAPH_NODE_TYPE_EVENT_RECORD,
	CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL,
	CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT,
	CU_GRAPH_NODE_TYPE_MEM_ALLOC,
	CU_GRAPH_NODE_TYPE_MEM_FREE,
} CUgraphNodeType;
enum { CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH = 1 };
enum {
	CU_AD_FORMAT_UNSIGNED_INT8 = 0x01,
	CU_AD_FORMAT_UNSIGNED_INT16 = 0x02,
	CU_AD_FORMAT_UNSIGNED_INT32 = 0x03,
	CU_AD_FORMAT_SIGNED_INT8 = 0x08,
	CU_AD_FORMAT_SIGNED_INT16 = 0x09,
	CU_AD_FORMAT_SIGNED_INT32 = 0x0a,
	CU_AD_FORMAT_HALF = 0x10,
	CU_AD_FORMAT_FLOAT = 0x20,
};
typedef enum {
	CU_POINTER_ATTRIBUTE_CONTEXT = 1,
	CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
	CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
	CU_POINTER_ATTRIBUTE_HOST_POINTER = 4,
	CU_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6,
	CU_POINTER_ATTRIBUTE_BUFFER_ID = 7,
	CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
	CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
	CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE = 10,
	CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
	CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
	CU_POINTER_ATTRIBUTE_MAPPED = 13,
	CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES = 14,
	CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE = 15,
	CU_POINTER_ATTRIBUTE_ACCESS_FLAGS = 16,
	CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17,
	CU_POINTER_ATTRIBUTE_MAPPING_SIZE = 18,
	CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR = 19,
	CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID = 20,
	CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE = 21,
	CU_POINTER_ATTRIBUTE_LOCALITY_DOMAIN_ORDINAL = 22,
} CUpointer_attribute;

typedef enum { CU_EXEC_AFFINITY_TYPE_SM_COUNT } CUexecAffinityType;
typedef struct {
	CUexecAffinityType type;
	union {
		struct { unsigned int val; } smCount;
	} param;
} CUexecAffinityParam;
typedef struct {
	CUexecAffinityParam *execAffinityParams;
	int numExecAffinityParams;
	void *cigParams;
} CUctxCreateParams;
typedef struct { CUmemLocationType type; int id; } CUmemLocation;
typedef struct { CUmemLocation location; int flags; } CUmemAccessDesc;
typedef struct {
	int type, requestedHandleTypes;
	CUmemLocation location;
	void *win32HandleMetaData;
	struct {
		unsigned char compressionType, gpuDirectRDMACapable;
		unsigned short usage;
		unsigned char reserved[4];
	} allocFlags;
} CUmemAllocationProp;
typedef struct {
	int allocType, handleTypes;
	CUmemLocation location;
	void *win32SecurityAttributes;
	size_t maxSize;
	unsigned short usage;
	unsigned char reserved[54];
} CUmemPoolProps;
typedef struct { unsigned char reserved[64]; } CUmemPoolPtrExportData;
enum {
	CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,
	CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,
	CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT = 7,
	CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT = 12,
};
typedef union {
	int cooperative;
	unsigned int clusterDim[3];
	CUevent event;
	char pad[64];
} CUlaunchAttributeValue;
typedef struct {
	int id;
	CUlaunchAttributeValue value;
} CUlaunchAttribute;
typedef struct {
	unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
	CUstream hStream;
	const CUlaunchAttribute *attrs;
	unsigned int numAttrs;
} CUlaunchConfig;
typedef struct {
	CUfunction function;
	unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
	CUstream hStream;
	void **kernelParams;
} CUDA_LAUNCH_PARAMS;
typedef struct {
	CUfunction func;
	unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
	void **kernelParams, **extra;
} CUDA_KERNEL_NODE_PARAMS_v1;
typedef struct {
	CUfunction func;
	unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
	void **kernelParams, **extra;
	CUkernel kern;
	CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS;
typedef struct {
	size_t srcXInBytes, srcY;
	CUmemorytype srcMemoryType;
	const void *srcHost;
	CUdeviceptr srcDevice;
	CUarray srcArray;
	size_t srcPitch, dstXInBytes, dstY;
	CUmemorytype dstMemoryType;
	void *dstHost;
	CUdeviceptr dstDevice;
	CUarray dstArray;
	size_t dstPitch, WidthInBytes, Height;
} CUDA_MEMCPY2D;
typedef struct {
	size_t srcXInBytes, srcY, srcZ, srcLOD;
	CUmemorytype srcMemoryType;
	const void *srcHost;
	CUdeviceptr srcDevice;
	CUarray srcArray;
	void *reserved0; // the source's context in CUDA_MEMCPY3D_PEER
	size_t srcPitch, srcHeight, dstXInBytes, dstY, dstZ, dstLOD;
	CUmemorytype dstMemoryType;
	void *dstHost;
	CUdeviceptr dstDevice;
	CUarray dstArray;
	void *reserved1;
	size_t dstPitch, dstHeight, WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;
typedef CUDA_MEMCPY3D CUDA_MEMCPY3D_PEER;
typedef struct {
	CUdeviceptr dst;
	size_t pitch;
	unsigned int value, elementSize;
	size_t width, height;
} CUDA_MEMSET_NODE_PARAMS;
typedef struct { CUhostFn fn; void *userData; } CUDA_HOST_NODE_PARAMS;
typedef struct {
	CUmemPoolProps poolProps;
	const CUmemAccessDesc *accessDescs;
	size_t accessDescCount, bytesize;
	CUdeviceptr dptr;
} CUDA_MEM_ALLOC_NODE_PARAMS;
typedef struct {
	int flags, reserved;
	CUcontext copyCtx;
	CUDA_MEMCPY3D copyParams;
} CUDA_MEMCPY_NODE_PARAMS;
typedef struct {
	CUgraphNodeType type;
	int reserved0[3];
	union {
		long long reserved1[29];
		CUDA_KERNEL_NODE_PARAMS kernel;
		CUDA_MEMCPY_NODE_PARAMS memcpy;
		CUDA_MEMSET_NODE_PARAMS memset;
		CUDA_HOST_NODE_PARAMS host;
		struct { CUgraph graph; int ownership; } graph;
		struct { CUevent event; } eventWait, eventRecord;
		CUDA_MEM_ALLOC_NODE_PARAMS alloc;
		struct { CUdeviceptr dptr; } free;
	};
	long long reserved2;
} CUgraphNodeParams;
typedef struct {
	uint64_t flags;
	CUstream hUploadStream;
	CUgraphNode hErrNode_out;
	int result_out;
} CUDA_GRAPH_INSTANTIATE_PARAMS;
typedef struct { int result; CUgraphNode errorNode, errorFromNode; } CUgraphExecUpdateResultInfo;
typedef struct { unsigned char from_port, to_port, type, reserved[5]; } CUgraphEdgeData;
typedef struct {
	size_t Width, Height;
	int Format;
	unsigned int NumChannels;
} CUDA_ARRAY_DESCRIPTOR;
typedef struct {
	size_t Width, Height, Depth;
	int Format;
	unsigned int NumChannels, Flags;
} CUDA_ARRAY3D_DESCRIPTOR;
typedef struct {
	unsigned int Width, Height;
	int Format;
	unsigned int NumChannels;
} CUDA_ARRAY_DESCRIPTOR_v1;
typedef struct {
	unsigned int Width, Height, Depth;
	int Format;
	unsigned int NumChannels, Flags;
} CUDA_ARRAY3D_DESCRIPTOR_v1;
typedef struct { size_t size, alignment; unsigned int reserved[4]; } CUDA_ARRAY_MEMORY_REQUIREMENTS;
typedef struct {
	int type;
	union {
		int fd;
		struct {
			void *handle;
			const void *name;
		} win32;
		const void *nvSciBufObject;
	} handle;
	unsigned long long size;
	unsigned int flags, reserved[16];
} CUDA_EXTERNAL_MEMORY_HANDLE_DESC;
typedef struct {
	unsigned long long offset, size;
	unsigned int flags, reserved[16];
} CUDA_EXTERNAL_MEMORY_BUFFER_DESC;
typedef struct {
	unsigned long long offset;
	CUDA_ARRAY3D_DESCRIPTOR arrayDesc;
	unsigned int numLevels, reserved[16];
} CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC;

// The calls. Those with _ptsz or _ptds at the end have the type of the call without; those of
// before CUDA 3.2 are left out.

// errors.c
CUresult cuGetErrorName(CUresult result, const char **name);
CUresult cuGetErrorString(CUresult result, const char **text);

// init.c
CUresult cuInit(unsigned int flags);
CUresult cuDriverGetVersion(int *version);
CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuDeviceGetCount(int *count);
CUresult cuDeviceGetName(char *name, int len, CUdevice device);
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device);
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device);
CUresult cuDeviceGetLuid(char *luid, unsigned int *mask, CUdevice device);
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice device);
CUresult cuDeviceGetPCIBusId(char *id, int len, CUdevice device);
CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *id);
CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device);
CUresult cuDeviceCanAccessPeer(int *can, CUdevice a, CUdevice b);
CUresult cuDeviceGetP2PAttribute(int *value, int attribute, CUdevice a, CUdevice b);

// context.c
CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice device);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUresult cuDevicePrimaryCtxRelease(CUdevice device);
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device);
CUresult cuDevicePrimaryCtxReset(CUdevice device);
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags);
CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags);
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active);
CUresult cuCtxPushCurrent_v2(CUcontext c);
CUresult cuCtxPushCurrent(CUcontext c);
CUresult cuCtxPopCurrent_v2(CUcontext *c);
CUresult cuCtxPopCurrent(CUcontext *c);
CUresult cuCtxSetCurrent(CUcontext c);
CUresult cuCtxGetCurrent(CUcontext *c);
CUresult cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice device);
CUresult cuCtxCreate(CUcontext *out, unsigned int flags, CUdevice device);
CUresult cuCtxCreate_v3(CUcontext *out, CUexecAffinityParam *params, int count, unsigned int flags,
	CUdevice device);
CUresult cuCtxCreate_v4(
	CUcontext *out, CUctxCreateParams *p, unsigned int flags, CUdevice device);
CUresult cuCtxDestroy_v2(CUcontext c);
CUresult cuCtxDestroy(CUcontext c);
CUresult cuCtxGetDevice(CUdevice *device);
CUresult cuCtxGetFlags(unsigned int *flags);
CUresult cuCtxSetFlags(unsigned int flags);
CUresult cuCtxAttach(CUcontext *c, unsigned int flags);
CUresult cuCtxDetach(CUcontext c);
CUresult cuCtxGetId(CUcontext c, unsigned long long *id);
CUresult cuCtxGetApiVersion(CUcontext c, unsigned int *version);
CUresult cuCtxSetLimit(int limit, size_t value);
CUresult cuCtxGetLimit(size_t *value, int limit);
CUresult cuCtxGetCacheConfig(int *config);
CUresult cuCtxSetCacheConfig(int config);
CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest);
CUresult cuCtxSynchronize(void);
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags);
CUresult cuCtxDisablePeerAccess(CUcontext peer);

// module.c
CUresult cuModuleLoadData(CUmodule *out, const void *image);
CUresult cuModuleLoadFatBinary(CUmodule *out, const void *image);
CUresult cuModuleLoadDataEx(
	CUmodule *out, const void *image, unsigned int count, int *options, void **values);
CUresult cuModuleLoad(CUmodule *out, const char *path);
CUresult cuModuleUnload(CUmodule m);
CUresult cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name);
CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule m);
CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int count, CUmodule m);
CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule m, const char *name);
CUresult cuModuleGetLoadingMode(int *mode);
CUresult cuLibraryLoadData(CUlibrary *out, const void *code, int *jit, void **jit_values,
	unsigned int jits, int *options, void **values, unsigned int count);
CUresult cuLibraryUnload(CUlibrary l);
CUresult cuLibraryGetKernel(CUkernel *out, CUlibrary l, const char *name);
CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary l);
CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int count, CUlibrary l);
CUresult cuLibraryGetModule(CUmodule *out, CUlibrary l);
CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary l, const char *name);
CUresult cuLibraryGetManaged(CUdeviceptr *address, size_t *bytes, CUlibrary l, const char *name);
CUresult cuLibraryGetUnifiedFunction(void **out, CUlibrary l, const char *symbol);
CUresult cuFuncGetParamInfo(CUfunction f, size_t index, size_t *offset, size_t *bytes);
CUresult cuFuncGetParamCount(CUfunction f, size_t *count);
CUresult cuKernelGetParamInfo(CUkernel k, size_t index, size_t *offset, size_t *bytes);
CUresult cuKernelGetParamCount(CUkernel k, size_t *count);
CUresult cuKernelGetFunction(CUfunction *out, CUkernel k);
CUresult cuKernelGetName(const char **name, CUkernel k);
CUresult cuFuncGetName(const char **name, CUfunction f);
CUresult cuFuncGetModule(CUmodule *out, CUfunction f);
CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction f);
CUresult cuFuncSetAttribute(CUfunction f, int attribute, int value);
CUresult cuFuncSetCacheConfig(CUfunction f, int config);
CUresult cuFuncSetSharedMemConfig(CUfunction f, int config);
CUresult cuFuncLoad(CUfunction f);
CUresult cuFuncIsLoaded(int *state, CUfunction f);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(
	int *blocks, CUfunction f, int block, size_t shared);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
	int *blocks, CUfunction f, int block, size_t shared, unsigned int flags);
CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction f,
	size_t (*shared_of)(int), size_t shared, int limit, unsigned int flags);
CUresult cuOccupancyMaxPotentialClusterSize(int *size, CUfunction f, const CUlaunchConfig *c);
CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction f, const CUlaunchConfig *c);
CUresult cuOccupancyMaxPotentialBlockSize(
	int *grid, int *block, CUfunction f, size_t (*shared_of)(int), size_t shared, int limit);

// stream.c
CUresult cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int priority);
CUresult cuStreamCreate(CUstream *out, unsigned int flags);
CUresult cuStreamDestroy_v2(CUstream s);
CUresult cuStreamDestroy(CUstream s);
CUresult cuStreamGetPriority(CUstream handle, int *out);
CUresult cuStreamGetFlags(CUstream handle, unsigned int *out);
CUresult cuStreamGetId(CUstream handle, unsigned long long *out);
CUresult cuStreamGetDevice(CUstream handle, CUdevice *out);
CUresult cuStreamGetCtx(CUstream handle, CUcontext *out);
CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext *out, CUgreenCtx *green);
CUresult cuStreamGetGreenCtx(CUstream handle, CUgreenCtx *out);
CUresult cuStreamQuery(CUstream handle);
CUresult cuStreamSynchronize(CUstream handle);
CUresult cuStreamWaitEvent(CUstream handle, CUevent e, unsigned int flags);
CUresult cuEventCreate(CUevent *out, unsigned int flags);
CUresult cuEventDestroy_v2(CUevent e);
CUresult cuEventDestroy(CUevent e);
CUresult cuEventRecordWithFlags(CUevent e, CUstream handle, unsigned int flags);
CUresult cuEventRecord(CUevent e, CUstream s);
CUresult cuEventQuery(CUevent e);
CUresult cuEventSynchronize(CUevent e);
CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b);
CUresult cuEventElapsedTime_v2(float *ms, CUevent a, CUevent b);

// capture.c
CUresult cuStreamBeginCapture_v2(CUstream s, CUstreamCaptureMode mode);
CUresult cuStreamBeginCapture(CUstream s);
CUresult cuStreamBeginCaptureToGraph(CUstream s, CUgraph g, const CUgraphNode *from,
	const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode);
CUresult cuStreamEndCapture(CUstream handle, CUgraph *out);
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode);
CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus *status, uint64_t *id,
	CUgraph *graph, const CUgraphNode **from, size_t *count);
CUresult cuStreamGetCaptureInfo_v3(CUstream s, CUstreamCaptureStatus *status, uint64_t *id,
	CUgraph *graph, const CUgraphNode **from, const CUgraphEdgeData **edges, size_t *count);
CUresult cuStreamGetCaptureInfo(CUstream s, CUstreamCaptureStatus *status, uint64_t *id);
CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus *status);
CUresult cuStreamUpdateCaptureDependencies(
	CUstream handle, CUgraphNode *from, size_t count, unsigned int flags);

// launch.c
CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
	unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared, CUstream s,
	void **params, void **extra);
CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params, void **extra);
CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
	unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared, CUstream s,
	void **params);
CUresult cuLaunchCooperativeKernelMultiDevice(
	CUDA_LAUNCH_PARAMS *list, unsigned int count, unsigned int flags);
CUresult cuLaunchGridAsync(CUfunction f, int width, int height, CUstream s);
CUresult cuLaunchGrid(CUfunction f, int width, int height);
CUresult cuLaunch(CUfunction f);
CUresult cuLaunchHostFunc(CUstream s, CUhostFn call, void *data);
CUresult cuStreamAddCallback(CUstream s, CUstreamCallback call, void *data, unsigned int flags);

// graph.c
CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph g, unsigned long long flags);
CUresult cuGraphInstantiate(
	CUgraphExec *out, CUgraph g, CUgraphNode *error, char *log, size_t size);
CUresult cuGraphInstantiate_v2(
	CUgraphExec *out, CUgraph g, CUgraphNode *error, char *log, size_t size);
CUresult cuGraphInstantiateWithParams(
	CUgraphExec *out, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS *p);
CUresult cuGraphExecDestroy(CUgraphExec x);
CUresult cuGraphExecGetFlags(CUgraphExec x, uint64_t *flags);
CUresult cuGraphUpload(CUgraphExec x, CUstream s);
CUresult cuGraphLaunch(CUgraphExec x, CUstream handle);
CUresult cuGraphCreate(CUgraph *out, unsigned int flags);
CUresult cuGraphDestroy(CUgraph g);
CUresult cuGraphClone(CUgraph *out, CUgraph g);
CUresult cuGraphNodeFindInClone(CUgraphNode *out, CUgraphNode n, CUgraph clone);
CUresult cuGraphExecUpdate_v2(CUgraphExec x, CUgraph g, CUgraphExecUpdateResultInfo *info);
CUresult cuGraphExecUpdate(CUgraphExec x, CUgraph g, CUgraphNode *error, int *result);

// graphnode.c
CUresult cuGraphAddKernelNode_v2(CUgraphNode *out, CUgraph g, const CUgraphNode *from, size_t n,
	const CUDA_KERNEL_NODE_PARAMS *p);
CUresult cuGraphAddKernelNode(CUgraphNode *out, CUgraph g, const CUgraphNode *from, size_t n,
	const CUDA_KERNEL_NODE_PARAMS_v1 *p);
CUresult cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph g, const CUgraphNode *from, size_t n,
	const CUDA_MEMCPY3D *p, CUcontext c);
CUresult cuGraphAddMemsetNode(CUgraphNode *out, CUgraph g, const CUgraphNode *from, size_t n,
	const CUDA_MEMSET_NODE_PARAMS *p, CUcontext c);
CUresult cuGraphAddHostNode(
	CUgraphNode *out, CUgraph g, const CUgraphNode *from, size_t n, const CUDA_HOST_NODE_PARAMS *p);
CUresult cuGraphAddChildGraphNode(
	CUgraphNode *out, CUgraph g, const CUgraphNode *from, size_t n, CUgraph child);
CUresult cuGraphAddEmptyNode(CUgraphNode *out, CUgraph g, const CUgraphNode *from, size_t n);
CUresult cuGraphAddEventRecordNode(
	CUgraphNode *out, CUgraph g, const CUgraphNode *from, size_t n, CUevent e);
CUresult cuGraphAddEventWaitNode(
	CUgraphNode *out, CUgraph g, const CUgraphNode *from, size_t n, CUevent e);
CUresult cuGraphAddMemAllocNode(
	CUgraphNode *out, CUgraph g, const CUgraphNode *from, size_t n, CUDA_MEM_ALLOC_NODE_PARAMS *p);
CUresult cuGraphAddMemFreeNode(
	CUgraphNode *out, CUgraph g, const CUgraphNode *from, size_t n, CUdeviceptr address);
CUresult cuGraphAddNode(
	CUgraphNode *out, CUgraph g, const CUgraphNode *from, size_t n, CUgraphNodeParams *p);
CUresult cuGraphAddNode_v2(CUgraphNode *out, CUgraph g, const CUgraphNode *from,
	const CUgraphEdgeData *edges, size_t n, CUgraphNodeParams *p);
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS *p);
CUresult cuGraphKernelNodeSetParams(CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS_v1 *p);
CUresult cuGraphExecKernelNodeSetParams_v2(
	CUgraphExec x, CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS *p);
CUresult cuGraphExecKernelNodeSetParams(
	CUgraphExec x, CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS_v1 *p);
CUresult cuGraphExecMemcpyNodeSetParams(
	CUgraphExec x, CUgraphNode n, const CUDA_MEMCPY3D *p, CUcontext c);
CUresult cuGraphExecMemsetNodeSetParams(
	CUgraphExec x, CUgraphNode n, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext c);
CUresult cuGraphExecHostNodeSetParams(CUgraphExec x, CUgraphNode n, const CUDA_HOST_NODE_PARAMS *p);
CUresult cuGraphNodeSetParams(CUgraphNode n, CUgraphNodeParams *p);
CUresult cuGraphExecNodeSetParams(CUgraphExec x, CUgraphNode n, CUgraphNodeParams *p);
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode n, CUDA_KERNEL_NODE_PARAMS *p);
CUresult cuGraphKernelNodeGetParams(CUgraphNode n, CUDA_KERNEL_NODE_PARAMS_v1 *p);
CUresult cuGraphMemAllocNodeGetParams(CUgraphNode n, CUDA_MEM_ALLOC_NODE_PARAMS *p);
CUresult cuGraphMemFreeNodeGetParams(CUgraphNode n, CUdeviceptr *address);
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode n, CUgraph *g);
CUresult cuGraphNodeGetType(CUgraphNode n, CUgraphNodeType *type);
CUresult cuGraphNodeSetEnabled(CUgraphExec x, CUgraphNode n, unsigned int enabled);
CUresult cuGraphNodeGetEnabled(CUgraphExec x, CUgraphNode n, unsigned int *enabled);
CUresult cuGraphGetNodes(CUgraph g, CUgraphNode *nodes, size_t *count);
CUresult cuGraphGetRootNodes(CUgraph g, CUgraphNode *nodes, size_t *count);
CUresult cuGraphGetEdges(CUgraph g, CUgraphNode *from, CUgraphNode *to, size_t *count);
CUresult cuGraphNodeGetDependencies(CUgraphNode n, CUgraphNode *out, size_t *count);
CUresult cuGraphNodeGetDependentNodes(CUgraphNode n, CUgraphNode *out, size_t *count);
CUresult cuGraphAddDependencies(
	CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t count);
CUresult cuGraphRemoveDependencies(
	CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t count);
CUresult cuGraphDestroyNode(CUgraphNode n);

// graphmem.c
CUresult cuDeviceGraphMemTrim(CUdevice d);
CUresult cuDeviceGetGraphMemAttribute(CUdevice d, CUgraphMem_attribute attribute, void *value);
CUresult cuDeviceSetGraphMemAttribute(CUdevice d, CUgraphMem_attribute attribute, void *value);

// memory.c
CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes);
CUresult cuMemAllocPitch_v2(
	CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned int element);
CUresult cuMemFree_v2(CUdeviceptr address);
CUresult cuMemFreeHost(void *p);
CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned int flags);
CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned int flags);
CUresult cuMemAllocHost_v2(void **out, size_t bytes);
CUresult cuMemAllocHost(void **out, unsigned int bytes);
CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned int flags);
CUresult cuMemHostRegister(void *p, size_t bytes, unsigned int flags);
CUresult cuMemHostUnregister(void *p);
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *p, unsigned int flags);
CUresult cuMemHostGetFlags(unsigned int *flags, void *p);
CUresult cuMemGetInfo_v2(size_t *free, size_t *total);
CUresult cuMemGetInfo(unsigned int *free, unsigned int *total);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address);

// copy.c
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void * from, size_t bytes);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void * from, size_t bytes, CUstream s);
CUresult cuMemcpyDtoH_v2(void * to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyDtoHAsync_v2(void * to, CUdeviceptr from, size_t bytes, CUstream s);
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s);
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s);
CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext tc, CUdeviceptr from, CUcontext fc, size_t bytes);
CUresult cuMemcpyPeerAsync(
	CUdeviceptr to, CUcontext tc, CUdeviceptr from, CUcontext fc, size_t bytes, CUstream s);
CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *p);
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *p);
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *p, CUstream s);
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *p);
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *p, CUstream s);
CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *p);
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *p, CUstream s);
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char v, size_t n);
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char v, size_t n, CUstream s);
CUresult cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char v, size_t w, size_t h);
CUresult cuMemsetD2D8Async(
	CUdeviceptr to, size_t pitch, unsigned char v, size_t w, size_t h, CUstream s);
CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short v, size_t n);
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short v, size_t n, CUstream s);
CUresult cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short v, size_t w, size_t h);
CUresult cuMemsetD2D16Async(
	CUdeviceptr to, size_t pitch, unsigned short v, size_t w, size_t h, CUstream s);
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int v, size_t n);
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int v, size_t n, CUstream s);
CUresult cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned int v, size_t w, size_t h);
CUresult cuMemsetD2D32Async(
	CUdeviceptr to, size_t pitch, unsigned int v, size_t w, size_t h, CUstream s);
CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice to, CUstream s);
CUresult cuMemPrefetchAsync_v2(
	CUdeviceptr address, size_t bytes, CUmemLocation to, unsigned int flags, CUstream s);
CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, int advice, CUdevice device);
CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, int advice, CUmemLocation location);

// arraycopy.c
CUresult cuMemcpyDtoA_v2(CUarray to, size_t offset, CUdeviceptr from, size_t n);
CUresult cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t offset, size_t n);
CUresult cuMemcpyHtoA_v2(CUarray to, size_t offset, const void *from, size_t n);
CUresult cuMemcpyAtoH_v2(void *to, CUarray from, size_t offset, size_t n);
CUresult cuMemcpyAtoA_v2(CUarray to, size_t at, CUarray from, size_t offset, size_t n);
CUresult cuMemcpyHtoAAsync_v2(CUarray to, size_t offset, const void *from, size_t n, CUstream s);
CUresult cuMemcpyAtoHAsync_v2(void *to, CUarray from, size_t offset, size_t n, CUstream s);
CUresult cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count,
	void *attributes, size_t *indices, size_t kinds, size_t *failed, CUstream s);

// pool.c
CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream s);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool p, CUstream s);
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle);
CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *properties);
CUresult cuMemPoolDestroy(CUmemoryPool p);
CUresult cuMemPoolTrimTo(CUmemoryPool p, size_t keep);
CUresult cuMemPoolExportToShareableHandle(
	void *out, CUmemoryPool p, int type, unsigned long long flags);
CUresult cuMemPoolImportFromShareableHandle(
	CUmemoryPool *out, void *os, int type, unsigned long long flags);
CUresult cuMemPoolSetAttribute(CUmemoryPool p, CUmemPool_attribute attribute, void *value);
CUresult cuMemPoolGetAttribute(CUmemoryPool p, CUmemPool_attribute attribute, void *value);
CUresult cuMemPoolSetAccess(CUmemoryPool p, const CUmemAccessDesc *access, size_t count);
CUresult cuMemPoolGetAccess(int *flags, CUmemoryPool p, CUmemLocation *location);
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice d);
CUresult cuDeviceGetMemPool(CUmemoryPool *out, CUdevice d);
CUresult cuDeviceSetMemPool(CUdevice d, CUmemoryPool p);

// vmm.c
CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *p,
	unsigned long long flags);
CUresult cuMemRelease(CUmemGenericAllocationHandle handle);
CUresult cuMemAddressReserve(
	CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr wish, unsigned long long flags);
CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes);
CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
	CUmemGenericAllocationHandle handle, unsigned long long flags);
CUresult cuMemUnmap(CUdeviceptr address, size_t bytes);
CUresult cuMemSetAccess(
	CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count);
CUresult cuMemGetAccess(
	unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address);
CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *p, int option);
CUresult cuMemGetAllocationPropertiesFromHandle(
	CUmemAllocationProp *p, CUmemGenericAllocationHandle handle);
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address);
CUresult cuMemExportToShareableHandle(
	void *out, CUmemGenericAllocationHandle handle, int type, unsigned long long flags);
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *os, int type);

// array.c
CUresult cuArray3DCreate_v2(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *d);
CUresult cuArrayCreate_v2(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *d);
CUresult cuArray3DCreate(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR_v1 *d);
CUresult cuArrayCreate(CUarray *out, const CUDA_ARRAY_DESCRIPTOR_v1 *d);
CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *d, CUarray a);
CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *d, CUarray a);
CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *r, CUarray a, CUdevice d);
CUresult cuArrayDestroy(CUarray a);
CUresult cuMipmappedArrayCreate(
	CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels);
CUresult cuMipmappedArrayGetLevel(CUarray *out, CUmipmappedArray m, unsigned int level);
CUresult cuMipmappedArrayGetMemoryRequirements(
	CUDA_ARRAY_MEMORY_REQUIREMENTS *r, CUmipmappedArray m, CUdevice d);
CUresult cuMipmappedArrayDestroy(CUmipmappedArray m);
CUresult cuImportExternalMemory(CUexternalMemory *out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *d);
CUresult cuExternalMemoryGetMappedBuffer(
	CUdeviceptr *out, CUexternalMemory m, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *d);
CUresult cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray *out, CUexternalMemory m,
	const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *d);
CUresult cuDestroyExternalMemory(CUexternalMemory m);

// ipc.c
CUresult cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr address);
CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *out, CUdeviceptr address);
CUresult cuMemPoolImportPointer(CUdeviceptr *out, CUmemoryPool p, CUmemPoolPtrExportData *data);
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags);
CUresult cuIpcOpenMemHandle(CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags);
CUresult cuIpcCloseMemHandle(CUdeviceptr address);
CUresult cuIpcGetEventHandle(CUipcEventHandle *out, CUevent event);
CUresult cuIpcOpenEventHandle(CUevent *out, CUipcEventHandle handle);

// mps.c
CUresult cuCtxGetExecAffinity(CUexecAffinityParam *p, CUexecAffinityType type);
CUresult cuDeviceGetExecAffinitySupport(int *value, CUexecAffinityType type, CUdevice device);

// memop.c
CUresult cuStreamWriteValue32_v2(
	CUstream s, CUdeviceptr address, uint32_t value, unsigned int flags);
CUresult cuStreamWriteValue32(CUstream s, CUdeviceptr address, uint32_t value, unsigned int flags);
CUresult cuStreamWriteValue64_v2(
	CUstream s, CUdeviceptr address, uint64_t value, unsigned int flags);
CUresult cuStreamWriteValue64(CUstream s, CUdeviceptr address, uint64_t value, unsigned int flags);
CUresult cuStreamWaitValue32_v2(
	CUstream s, CUdeviceptr address, uint32_t value, unsigned int flags);
CUresult cuStreamWaitValue32(CUstream s, CUdeviceptr address, uint32_t value, unsigned int flags);
CUresult cuStreamWaitValue64_v2(
	CUstream s, CUdeviceptr address, uint64_t value, unsigned int flags);
CUresult cuStreamWaitValue64(CUstream s, CUdeviceptr address, uint64_t value, unsigned int flags);

// pointer.c
CUresult cuPointerGetAttribute(void *out, CUpointer_attribute what, CUdeviceptr address);
CUresult cuPointerGetAttributes(
	unsigned int count, CUpointer_attribute *what, void **out, CUdeviceptr address);
CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute what, CUdeviceptr address);

// rest.c
CUresult cuStreamAttachMemAsync(CUstream s, CUdeviceptr address, size_t bytes, unsigned int flags);
CUresult cuStreamSetAttribute(CUstream s, int attribute, const void *value);
CUresult cuStreamCopyAttributes(CUstream to, CUstream from);
CUresult cuCtxGetSharedMemConfig(int *config);
CUresult cuCtxSetSharedMemConfig(int config);
CUresult cuCtxResetPersistingL2Cache(void);
CUresult cuKernelGetAttribute(int *value, int attribute, CUkernel k, CUdevice d);
CUresult cuKernelSetAttribute(int attribute, int value, CUkernel k, CUdevice d);
CUresult cuKernelSetCacheConfig(CUkernel k, int config, CUdevice d);
CUresult cuKernelGetLibrary(CUlibrary *out, CUkernel k);
CUresult cuLibraryLoadFromFile(CUlibrary *out, const char *path, int *jit, void **jit_values,
	unsigned int jits, int *options, void **values, unsigned int count);
CUresult cuOccupancyAvailableDynamicSMemPerBlock(
	size_t *bytes, CUfunction f, int blocks, int block);
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);
CUresult cuFlushGPUDirectRDMAWrites(int target, int scope);

// link.c
typedef struct CUlinkState_st *CUlinkState;
CUresult cuLinkCreate(unsigned int count, int *options, void **values, CUlinkState *out);
CUresult cuLinkAddData(CUlinkState s, int type, void *data, size_t bytes, const char *name,
	unsigned int count, int *options, void **values);
CUresult cuLinkAddFile(CUlinkState s, int type, const char *path, unsigned int count,
	int *options, void **values);
CUresult cuLinkCreate_v2(unsigned int count, int *options, void **values, CUlinkState *out);
CUresult cuLinkAddData_v2(CUlinkState s, int type, void *data, size_t bytes, const char *name,
	unsigned int count, int *options, void **values);
CUresult cuLinkAddFile_v2(CUlinkState s, int type, const char *path, unsigned int count,
	int *options, void **values);
CUresult cuLinkComplete(CUlinkState s, void **image, size_t *bytes);
CUresult cuLinkDestroy(CUlinkState s);

// batchop.c
typedef union {
	int operation; // CUstreamBatchMemOpType
	struct {
		int operation;
		CUdeviceptr address;
		uint64_t value; // of the smaller ones the low half
		unsigned int flags;
		CUdeviceptr alias;
	} word;
	uint64_t pad[6];
} CUstreamBatchMemOpParams;
CUresult cuStreamBatchMemOp(
	CUstream s, unsigned int count, CUstreamBatchMemOpParams *all, unsigned int flags);
CUresult cuStreamBatchMemOp_v2(
	CUstream s, unsigned int count, CUstreamBatchMemOpParams *all, unsigned int flags);

// tensormap.c
typedef struct {
	_Alignas(64) uint64_t opaque[16];
} CUtensorMap;
CUresult cuTensorMapEncodeTiled(CUtensorMap *out, int type, uint32_t rank, void *address,
	const uint64_t *dim, const uint64_t *stride, const uint32_t *box, const uint32_t *step,
	int interleave, int swizzle, int l2, int fill);
CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *address);

// process.c: how many threads wait for a place in the device's queue
CUresult cuWeirFakeRooms(uint32_t *threads);

// procs.c
CUresult cuWeirFakeFuture(int *answer);
CUresult cuGetProcAddress(const char *name, void **out, int version, uint64_t flags);
CUresult cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags,
	CUdriverProcAddressQueryResult *status);
CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *out, int type);
CUresult cuCtxGetDevResource(CUcontext c, CUdevResource *out, int type);
CUresult cuGreenCtxGetDevResource(CUgreenCtx c, CUdevResource *out, int type);
CUresult cuDevSmResourceSplitByCount(CUdevResource *out, unsigned int *groups,
	const CUdevResource *from, CUdevResource *rest, unsigned int flags, unsigned int least);
CUresult cuDevResourceGenerateDesc(
	CUdevResourceDesc *out, CUdevResource *resources, unsigned int count);
CUresult cuGreenCtxCreate(
	CUgreenCtx *out, CUdevResourceDesc parts, CUdevice device, unsigned int flags);
CUresult cuGreenCtxDestroy(CUgreenCtx c);
CUresult cuCtxFromGreenCtx(CUcontext *out, CUgreenCtx c);
CUresult cuGreenCtxGetId(CUgreenCtx c, unsigned long long *id);
CUresult cuGreenCtxStreamCreate(
	CUstream *out, CUgreenCtx c, unsigned int flags, int priority);
CUresult cuGreenCtxRecordEvent(CUgreenCtx c, CUevent e);
CUresult cuGreenCtxWaitEvent(CUgreenCtx c, CUevent e);
CUresult cuGetExportTable(const void **table, const CUuuid *id);

#endif
