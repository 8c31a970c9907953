// Finding calls by name and version, and the call that only a newer CUDA has.
#include "image.h"
#include "table.h"

#include <string.h>

// cuWeirFakeFuture stands for any call newer than what a program's libraries know. It answers 42.
FK_API cuWeirFakeFuture(int *answer) {
	if (!answer)
		return CUDA_ERROR_INVALID_VALUE;
	*answer = 42;
	return CUDA_SUCCESS;
}

static CUresult find(const char *name, void **out, int version, uint64_t flags,
	CUdriverProcAddressQueryResult *status) {
	if (!name || !out || flags > 3 || flags == 3)
		return CUDA_ERROR_INVALID_VALUE;
	int known;
	void (*f)(void) =
		fk_lookup(name, version, flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &known);
	memcpy(out, &f, sizeof f);
	if (!known)
		fk_missing("call", name, version);
	if (status)
		*status = f ? CU_GET_PROC_ADDRESS_SUCCESS
			: known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
				: CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return f || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

FK_API cuGetProcAddress(const char *name, void **out, int version, uint64_t flags) {
	return find(name, out, version, flags, NULL);
}

FK_API cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags,
	CUdriverProcAddressQueryResult *status) {
	return find(name, out, version, flags, status);
}
