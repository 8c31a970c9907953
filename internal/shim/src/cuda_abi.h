/*
 * The layouts of the driver's structures that weir looks into, and the constants it uses, as
 * NVIDIA's driver API documents them. Fields that weir does not read are kept for their size only.
 */
#ifndef WEIR_CUDA_ABI_H
#define WEIR_CUDA_ABI_H

enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_DEINITIALIZED = 4,
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_INVALID_DEVICE = 101,
	CUDA_ERROR_ECC_UNCORRECTABLE = 214,
	CUDA_ERROR_NVLINK_UNCORRECTABLE = 220,
	CUDA_ERROR_CONTAINED = 226,
	CUDA_ERROR_NOT_FOUND = 500,
	CUDA_ERROR_NOT_READY = 600,
	CUDA_ERROR_ILLEGAL_ADDRESS = 700,
	CUDA_ERROR_LAUNCH_TIMEOUT = 702,
	CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
	CUDA_ERROR_ASSERT = 710,
	CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
	CUDA_ERROR_LAUNCH_FAILED = 719,
	CUDA_ERROR_TENSOR_MEMORY_LEAK = 721,
	CUDA_ERROR_NOT_PERMITTED = 800,
	CUDA_ERROR_NOT_SUPPORTED = 801,
	CUDA_ERROR_SYSTEM_NOT_READY = 802,
	CUDA_ERROR_MPS_RPC_FAILURE = 806,
	CUDA_ERROR_MPS_CLIENT_TERMINATED = 810,
	CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
	CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
	CUDA_ERROR_CAPTURED_EVENT = 907,
	CUDA_ERROR_UNKNOWN = 999,
};

enum {
	CU_EVENT_DEFAULT = 0,
	CU_POINTER_ATTRIBUTE_CONTEXT = 1,
	CU_POINTER_ATTRIBUTE_BUFFER_ID = 7,
	CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
	CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
	CU_POINTER_ATTRIBUTE_MAPPING_SIZE = 18,
	CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR = 19,
	CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID = 20,
	CU_STREAM_CAPTURE_MODE_RELAXED = 2,
	CU_STREAM_CAPTURE_STATUS_NONE = 0,
	CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 2,
	CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT = 5,
	CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT = 2,
	CU_GRAPH_NODE_TYPE_GRAPH = 4,
	CU_GRAPH_NODE_TYPE_MEM_ALLOC = 10,
	CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD = 2,
	CU_LIMIT_STACK_SIZE = 0,
	CU_LIMIT_PRINTF_FIFO_SIZE = 1,
	CU_LIMIT_MALLOC_HEAP_SIZE = 2,
	CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
	CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
	CU_MEM_LOCATION_TYPE_DEVICE = 1,
	CU_MEM_LOCATION_TYPE_HOST = 2,
	CU_MEM_LOCATION_TYPE_HOST_NUMA = 3,
	CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT = 4,
	CUDA_ARRAY3D_LAYERED = 1,
	CUDA_ARRAY3D_CUBEMAP = 4,
	CUDA_ARRAY3D_SPARSE = 0x40,
	CUDA_ARRAY3D_DEFERRED_MAPPING = 0x80,
};

#define CU_STREAM_LEGACY ((CUstream)(uintptr_t)1)
#define CU_STREAM_PER_THREAD ((CUstream)(uintptr_t)2)

typedef struct { char bytes[64]; } CUipcMemHandle;
typedef struct { char bytes[64]; } CUipcEventHandle;
typedef struct { uint64_t words[8]; } CUeglFrame;
typedef struct { int type; int id; } CUmemLocation;

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

struct weir_copy_end_2d {
	size_t x, y;
	int type;
	const void *host;
	CUdeviceptr device;
	CUarray array;
	size_t pitch;
};

typedef struct {
	struct weir_copy_end_2d src, dst;
	size_t WidthInBytes, Height;
} CUDA_MEMCPY2D;

struct weir_copy_end_3d {
	size_t x, y, z, lod;
	int type;
	const void *host;
	CUdeviceptr device;
	CUarray array;
	void *context; /* reserved in CUDA_MEMCPY3D */
	size_t pitch, height;
};

typedef struct {
	struct weir_copy_end_3d src, dst;
	size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;

typedef struct {
	struct weir_copy_end_3d src, dst;
	size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D_PEER;

/* Those of before CUDA 3.2, whose device addresses and sizes have 32 bits. */
struct weir_copy_end_2d_v1 {
	unsigned int x, y;
	int type;
	const void *host;
	unsigned int device;
	CUarray array;
	unsigned int pitch;
};

typedef struct {
	struct weir_copy_end_2d_v1 src, dst;
	unsigned int WidthInBytes, Height;
} CUDA_MEMCPY2D_v1;

struct weir_copy_end_3d_v1 {
	unsigned int x, y, z, lod;
	int type;
	const void *host;
	unsigned int device;
	CUarray array;
	void *reserved;
	unsigned int pitch, height;
};

typedef struct {
	struct weir_copy_end_3d_v1 src, dst;
	unsigned int WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D_v1;

struct weir_copy_operand {
	int type; /* 1: pointer, 2: array */
	union {
		struct {
			CUdeviceptr ptr;
			size_t row_length, layer_height;
			CUmemLocation hint;
		} ptr;
		struct {
			CUarray array;
			size_t x, y, z;
		} array;
	} at;
};

typedef struct {
	struct weir_copy_operand src, dst;
	size_t width, height, depth;
	int order;
	unsigned int flags;
} CUDA_MEMCPY3D_BATCH_OP;

typedef struct {
	unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
	CUstream hStream;
	void *attrs;
	unsigned int numAttrs;
} CUlaunchConfig;

typedef struct {
	CUfunction function;
	unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
	CUstream hStream;
	void **kernelParams;
} CUDA_LAUNCH_PARAMS;

typedef struct {
	int type;
	int requestedHandleTypes;
	CUmemLocation location;
	void *win32HandleMetaData;
	unsigned char flags[8];
} CUmemAllocationProp;

typedef struct {
	int allocType;
	int handleTypes;
	CUmemLocation location;
	void *win32SecurityAttributes;
	size_t maxSize;
	unsigned char rest[56];
} CUmemPoolProps;

typedef struct {
	CUmemPoolProps poolProps;
	const void *accessDescs;
	size_t accessDescCount;
	size_t bytesize;
	CUdeviceptr dptr;
} CUDA_MEM_ALLOC_NODE_PARAMS;

typedef struct {
	int type;
	union {
		int fd;
		void *words[2];
	} handle;
	unsigned long long size;
	unsigned int flags;
	unsigned int reserved[16];
} CUDA_EXTERNAL_MEMORY_HANDLE_DESC;

typedef struct {
	int type;
	int reserved0[3];
	union {
		CUDA_MEM_ALLOC_NODE_PARAMS alloc;
		char bytes[232];
	} of;
	long long reserved2;
} CUgraphNodeParams;

typedef struct {
	uint64_t flags;
	CUstream upload_stream;
	CUgraphNode failed;
	int result;
} CUDA_GRAPH_INSTANTIATE_PARAMS;

_Static_assert(sizeof(CUDA_MEMCPY2D) == 128, "CUDA_MEMCPY2D");
_Static_assert(sizeof(CUDA_MEMCPY3D) == 200, "CUDA_MEMCPY3D");
_Static_assert(sizeof(CUmemAllocationProp) == 32, "CUmemAllocationProp");
_Static_assert(sizeof(CUmemPoolProps) == 88, "CUmemPoolProps");
_Static_assert(sizeof(CUlaunchConfig) == 56, "CUlaunchConfig");
_Static_assert(sizeof(CUgraphNodeParams) == 256, "CUgraphNodeParams");
_Static_assert(sizeof(CUDA_EXTERNAL_MEMORY_HANDLE_DESC) == 104, "CUDA_EXTERNAL_MEMORY_HANDLE_DESC");

#endif
