// What the driver knows of an address.
#include "image.h"
#include "memory.h"

#include <string.h>

// attribute stores one attribute of the allocation (NULL: of memory that the driver does not know)
// at an address.
static CUresult attribute(
	void *out, CUpointer_attribute what, const fk_allocation *a, CUdeviceptr address) {
	bool host = a && (a->origin == FK_HOSTED || a->origin == FK_REGISTERED);
	switch (what) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)out = a ? a->context : NULL;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned int *)out = !a ? 0 : host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(CUdeviceptr *)out = a ? address : 0;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		*(void **)out = host || (a && a->origin == FK_MANAGED) ? (void *)(uintptr_t)address : NULL;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*(unsigned int *)out = 0;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		*(unsigned long long *)out = a ? a->id : 0;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*(unsigned int *)out = a && a->origin == FK_MANAGED;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)out = a ? a->device : -2;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*(unsigned int *)out = a && a->origin == FK_DEVICE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*(CUdeviceptr *)out = a ? a->address : 0;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*(size_t *)out = a ? a->bytes : 0;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*(unsigned int *)out = a && a->origin != FK_RESERVED;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*(int *)out = a ? 3 : 0;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*(CUmemoryPool *)out = a ? a->pool : NULL;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*(unsigned long long *)out = 0;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		*(unsigned int *)out = 0;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_LOCALITY_DOMAIN_ORDINAL:
		*(int *)out = -1;
		return CUDA_SUCCESS;
	default:
		fk_missing("pointer attribute", "cuPointerGetAttribute", (int)what);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

FK_API cuPointerGetAttribute(void *out, CUpointer_attribute what, CUdeviceptr address) {
	FK_TRY(fk_usable());
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	fk_allocation *a = fk_find(address);
	return fk_leave(a ? attribute(out, what, a, address) : CUDA_ERROR_INVALID_VALUE);
}

// Unlike the call for one attribute, this one answers for any address.
FK_API cuPointerGetAttributes(
	unsigned int count, CUpointer_attribute *what, void **out, CUdeviceptr address) {
	FK_TRY(fk_usable());
	if (!what || !out)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	fk_allocation *a = fk_find(address);
	for (unsigned int i = 0; i < count; i++) {
		CUresult r = attribute(out[i], what[i], a, address);
		if (r)
			return fk_leave(r);
	}
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuPointerSetAttribute(const void *value, CUpointer_attribute what, CUdeviceptr address) {
	FK_TRY(fk_usable());
	if (!value || what != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	return fk_leave(fk_find(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}
