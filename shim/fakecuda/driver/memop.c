// Stream memory operations: a stream writes a word, or waits for one. They are done in stream
// order, by the service thread, on the memory whose content is kept: managed and pinned memory, and
// the first FK_SHADOW bytes of the rest.
#include "memory.h"

#include <stdlib.h>
#include <string.h>

enum { GEQ = 0, EQ = 1, AND = 2, NOR = 3 };

typedef struct {
	CUdeviceptr address;
	uint64_t value;
	unsigned int flags, size;
	bool wait;
} memop;

static bool met(const memop *m, uint64_t word) {
	int64_t ahead =
		m->size == 4 ? (int32_t)((uint32_t)word - (uint32_t)m->value) : (int64_t)(word - m->value);
	uint64_t all = m->size == 4 ? UINT32_MAX : UINT64_MAX;
	switch (m->flags & 3) {
	case GEQ:
		return ahead >= 0;
	case EQ:
		return word == m->value;
	case AND:
		return word & m->value;
	default:
		return ~(word | m->value) & all;
	}
}

// step does what can be done now and reports whether the operation is over. It is also over when
// the memory has gone.
static bool step(const memop *m) {
	fk_enter();
	size_t room;
	unsigned char *p = fk_view(m->address, &room);
	uint64_t word = 0;
	bool over = true;
	if (p && room >= m->size && m->wait) {
		memcpy(&word, p, m->size);
		over = met(m, word);
	} else if (p && room >= m->size) {
		memcpy(p, &m->value, m->size);
	}
	fk_leave(0);
	return over;
}

static void run(void *p) {
	memop *m = p;
	while (!step(m))
		fk_sleep_until(NULL, 0, fk_now() + 50000);
	free(m);
}

static CUresult queue(CUstream s, memop op) {
	FK_TRY(fk_usable());
	if (op.address % op.size)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	size_t room;
	bool known = fk_view(op.address, &room) && room >= op.size;
	fk_leave(0);
	memop *m = known ? malloc(sizeof *m) : NULL;
	if (!m)
		return known ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	*m = op;
	CUresult r = fk_submit(s,
		&(fk_task){.type = CU_GRAPH_NODE_TYPE_HOST, .call = run, .data = m, .once = true}, NULL,
		NULL);
	if (r)
		free(m);
	return r;
}

#define MEMOP(name, type, waits) \
	FK_API name##_v2(CUstream s, CUdeviceptr address, type value, unsigned int flags) { \
		return queue(s, (memop){address, value, flags, sizeof(type), waits}); \
	} \
	FK_API name##_v2_ptsz(CUstream s, CUdeviceptr address, type value, unsigned int flags) { \
		return queue(fk_ptsz(s), (memop){address, value, flags, sizeof(type), waits}); \
	} \
	FK_API name(CUstream s, CUdeviceptr address, type value, unsigned int flags) { \
		return queue(s, (memop){address, value, flags, sizeof(type), waits}); \
	} \
	FK_API name##_ptsz(CUstream s, CUdeviceptr address, type value, unsigned int flags) { \
		return queue(fk_ptsz(s), (memop){address, value, flags, sizeof(type), waits}); \
	}

MEMOP(cuStreamWriteValue32, uint32_t, false)
MEMOP(cuStreamWriteValue64, uint64_t, false)
MEMOP(cuStreamWaitValue32, uint32_t, true)
MEMOP(cuStreamWaitValue64, uint64_t, true)
