// Copies of one row to, from and between arrays, and copies in batches.
#include "memory.h"

// end is one side of a copy: an array from an offset on, or memory.
typedef struct {
	CUarray array;
	size_t offset;
	CUdeviceptr address;
	bool host;
} end;

static CUresult side(fk_side *out, fk_motion *m, const end *e) {
	*out = (fk_side){.address = e->address, .host = e->host};
	return e->address ? CUDA_SUCCESS : fk_array_side(e->array, e->offset, 0, 0, m, out);
}

static CUresult run(end to, end from, size_t bytes, bool sync, CUstream s) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	if (sync)
		FK_TRY(fk_unsafe());
	if (!bytes)
		return CUDA_SUCCESS;
	fk_task t =
		fk_copying(CU_GRAPH_NODE_TYPE_MEMCPY, c->device, bytes, to.host || from.host);
	t.motion = fk_linear_copy(0, 0, bytes);
	FK_TRY(side(&t.motion.to, &t.motion, &to));
	FK_TRY(side(&t.motion.from, &t.motion, &from));
	t.waited = sync;
	fk_queue *q;
	uint64_t seq;
	FK_TRY(fk_submit(s, &t, &q, &seq));
	if (!sync || !q)
		return CUDA_SUCCESS;
	fk_wait(q, seq);
	return fk_sound();
}

#define ARRAY(a, at) ((end){.array = (a), .offset = (at)})
#define DEVICE(p) ((end){.address = (p)})
#define HOST(p) ((end){.address = (uintptr_t)(p), .host = true})

// PAIR makes a synchronous call for both default streams.
#define PAIR(name, parameters, to, from) \
	FK_API name##_v2 parameters { return run(to, from, n, true, NULL); } \
	FK_API name##_v2_ptds parameters { return run(to, from, n, true, CU_STREAM_PER_THREAD); }

PAIR(cuMemcpyDtoA, (CUarray to, size_t offset, CUdeviceptr from, size_t n), ARRAY(to, offset),
	DEVICE(from))
PAIR(cuMemcpyAtoD, (CUdeviceptr to, CUarray from, size_t offset, size_t n), DEVICE(to),
	ARRAY(from, offset))
PAIR(cuMemcpyHtoA, (CUarray to, size_t offset, const void *from, size_t n), ARRAY(to, offset),
	HOST(from))
PAIR(cuMemcpyAtoH, (void *to, CUarray from, size_t offset, size_t n), HOST(to),
	ARRAY(from, offset))
PAIR(cuMemcpyAtoA, (CUarray to, size_t at, CUarray from, size_t offset, size_t n), ARRAY(to, at),
	ARRAY(from, offset))

FK_API cuMemcpyHtoAAsync_v2(CUarray to, size_t offset, const void *from, size_t n, CUstream s) {
	return run(ARRAY(to, offset), HOST(from), n, false, s);
}

FK_API cuMemcpyHtoAAsync_v2_ptsz(
	CUarray to, size_t offset, const void *from, size_t n, CUstream s) {
	return cuMemcpyHtoAAsync_v2(to, offset, from, n, fk_ptsz(s));
}

FK_API cuMemcpyAtoHAsync_v2(void *to, CUarray from, size_t offset, size_t n, CUstream s) {
	return run(HOST(to), ARRAY(from, offset), n, false, s);
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
