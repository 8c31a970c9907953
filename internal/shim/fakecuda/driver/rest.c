// Calls of little consequence on a device that computes nothing, which programs make all the same.
#include "internal.h"

#include <stdlib.h>

static CUresult stream_known(CUstream handle) {
	CUstream s;
	FK_TRY(fk_usable());
	fk_enter();
	return fk_leave(fk_stream(handle, &s));
}

FK_API cuStreamAttachMemAsync(CUstream s, CUdeviceptr address, size_t bytes, unsigned int flags) {
	(void)address, (void)bytes, (void)flags;
	return stream_known(s);
}

FK_API cuStreamAttachMemAsync_ptsz(
	CUstream s, CUdeviceptr address, size_t bytes, unsigned int flags) {
	return cuStreamAttachMemAsync(fk_ptsz(s), address, bytes, flags);
}

FK_API cuStreamSetAttribute(CUstream s, int attribute, const void *value) {
	return value && attribute > 0 ? stream_known(s) : CUDA_ERROR_INVALID_VALUE;
}

FK_API cuStreamSetAttribute_ptsz(CUstream s, int attribute, const void *value) {
	return cuStreamSetAttribute(fk_ptsz(s), attribute, value);
}

FK_API cuStreamCopyAttributes(CUstream to, CUstream from) {
	FK_TRY(stream_known(to));
	return stream_known(from);
}

FK_API cuStreamCopyAttributes_ptsz(CUstream to, CUstream from) {
	return cuStreamCopyAttributes(fk_ptsz(to), fk_ptsz(from));
}

FK_API cuCtxGetSharedMemConfig(int *config) { return cuCtxGetCacheConfig(config); }
FK_API cuCtxSetSharedMemConfig(int config) { return cuCtxSetCacheConfig(config); }
FK_API cuCtxResetPersistingL2Cache(void) { return cuCtxSetCacheConfig(0); }

FK_API cuProfilerStart(void) { return fk_usable(); }
FK_API cuProfilerStop(void) { return fk_usable(); }

FK_API cuFlushGPUDirectRDMAWrites(int target, int scope) {
	(void)target, (void)scope;
	CUcontext c;
	return fk_current(&c);
}
