// Copies to, from and between arrays, whose content is not kept, and copies in batches.
#include "memory.h"

typedef struct {
	uint64_t bytes;
	bool host, sync;
	CUstream stream;
} transfer;

static CUresult run(const transfer *t) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	if (t->sync)
		FK_TRY(fk_unsafe());
	if (!t->bytes)
		return CUDA_SUCCESS;
	fk_queue *q;
	uint64_t seq;
	fk_task task = fk_copying(CU_GRAPH_NODE_TYPE_MEMCPY, c->device, t->bytes, t->host);
	FK_TRY(fk_submit(t->stream, &task, &q, &seq));
	if (t->sync && q)
		fk_wait(q, seq);
	return CUDA_SUCCESS;
}

#define ARRAY(a) \
	if (!FK_IS(a, FK_ARRAY)) \
	return CUDA_ERROR_INVALID_HANDLE

// PAIR makes a synchronous call for both default streams.
#define PAIR(name, parameters, arrays, bytes, host) \
	FK_API name##_v2 parameters { \
		arrays; \
		return run(&(transfer){bytes, host, true, NULL}); \
	} \
	FK_API name##_v2_ptds parameters { \
		arrays; \
		return run(&(transfer){bytes, host, true, CU_STREAM_PER_THREAD}); \
	}

PAIR(cuMemcpyDtoA, (CUarray to, size_t offset, CUdeviceptr from, size_t n),
	(void)offset; (void)from; ARRAY(to), n, false)
PAIR(cuMemcpyAtoD, (CUdeviceptr to, CUarray from, size_t offset, size_t n),
	(void)offset; (void)to; ARRAY(from), n, false)
PAIR(cuMemcpyHtoA, (CUarray to, size_t offset, const void *from, size_t n),
	(void)offset; (void)from; ARRAY(to), n, true)
PAIR(cuMemcpyAtoH, (void *to, CUarray from, size_t offset, size_t n),
	(void)offset; (void)to; ARRAY(from), n, true)
PAIR(cuMemcpyAtoA, (CUarray to, size_t at, CUarray from, size_t offset, size_t n),
	(void)at; (void)offset; ARRAY(from); ARRAY(to), n, false)

FK_API cuMemcpyHtoAAsync_v2(CUarray to, size_t offset, const void *from, size_t n, CUstream s) {
	(void)offset, (void)from;
	ARRAY(to);
	return run(&(transfer){n, true, false, s});
}

FK_API cuMemcpyHtoAAsync_v2_ptsz(
	CUarray to, size_t offset, const void *from, size_t n, CUstream s) {
	return cuMemcpyHtoAAsync_v2(to, offset, from, n, fk_ptsz(s));
}

FK_API cuMemcpyAtoHAsync_v2(void *to, CUarray from, size_t offset, size_t n, CUstream s) {
	(void)offset, (void)to;
	ARRAY(from);
	return run(&(transfer){n, true, false, s});
}

FK_API cuMemcpyAtoHAsync_v2_ptsz(void *to, CUarray from, size_t offset, size_t n, CUstream s) {
	return cuMemcpyAtoHAsync_v2(to, from, offset, n, fk_ptsz(s));
}

FK_API cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count,
	void *attributes, size_t *indices, size_t kinds, size_t *failed, CUstream s) {
	(void)attributes, (void)indices, (void)kinds;
	if (!to || !from || !bytes || !count || !s)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		CUresult r = cuMemcpyAsync(to[i], from[i], bytes[i], s);
		if (r) {
			if (failed)
				*failed = i;
			return r;
		}
	}
	return CUDA_SUCCESS;
}

FK_API cuMemcpyBatchAsync_ptsz(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count,
	void *attributes, size_t *indices, size_t kinds, size_t *failed, CUstream s) {
	return cuMemcpyBatchAsync(
		to, from, bytes, count, attributes, indices, kinds, failed, fk_ptsz(s));
}
