// Stream memory operations: a stream writes a word when it comes to it, or goes on when a word has
// a value, for which the service thread looks. Neither keeps other streams from anything.
#include "memory.h"

#include <stdlib.h>
#include <string.h>

enum { GEQ = 0, EQ = 1, AND = 2, NOR = 3 };

typedef struct {
	CUdeviceptr address;
	uint64_t value;
	unsigned int flags, size;
} memop;

// met reports whether the word is as a wait wants it. It is also over when the memory has gone.
static bool met(void *p) {
	memop m = *(memop *)p;
	uint64_t word = 0, all = m.size == 4 ? UINT32_MAX : UINT64_MAX;
	bool there = fk_peek(m.address, &word, m.size), over = true;
	int64_t ahead =
		m.size == 4 ? (int32_t)((uint32_t)word - (uint32_t)m.value) : (int64_t)(word - m.value);
	switch (m.flags & 3) {
	case GEQ:
		over = ahead >= 0;
		break;
	case EQ:
		over = word == m.value;
		break;
	case AND:
		over = word & m.value;
		break;
	case NOR:
		over = ~(word | m.value) & all;
	}
	if (over || !there)
		free(p);
	return over || !there;
}

static CUresult queue(CUstream s, memop op, bool wait) {
	FK_TRY(fk_usable());
	uint64_t word;
	if (op.address % op.size)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	bool known = fk_peek(op.address, &word, op.size);
	fk_leave(0);
	if (!known)
		return CUDA_ERROR_INVALID_VALUE;
	fk_task t = {.type = CU_GRAPH_NODE_TYPE_HOST, .once = true, .mark = !wait};
	if (!wait) {
		t.motion = fk_linear_copy(op.address, 0, op.size);
		t.motion.action = FK_SET, t.motion.value = op.value, t.motion.size = op.size;
		return fk_submit(s, &t, NULL, NULL);
	}
	t.data = malloc(sizeof op);
	if (!t.data)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(t.data, &op, sizeof op);
	t.until = met;
	CUresult r = fk_submit(s, &t, NULL, NULL);
	if (r)
		free(t.data);
	return r;
}

#define MEMOP(name, type, waits) \
	FK_API name##_v2(CUstream s, CUdeviceptr address, type value, unsigned int flags) { \
		return queue(s, (memop){address, value, flags, sizeof(type)}, waits); \
	} \
	FK_API name##_v2_ptsz(CUstream s, CUdeviceptr address, type value, unsigned int flags) { \
		return queue(fk_ptsz(s), (memop){address, value, flags, sizeof(type)}, waits); \
	} \
	FK_API name(CUstream s, CUdeviceptr address, type value, unsigned int flags) { \
		return queue(s, (memop){address, value, flags, sizeof(type)}, waits); \
	} \
	FK_API name##_ptsz(CUstream s, CUdeviceptr address, type value, unsigned int flags) { \
		return queue(fk_ptsz(s), (memop){address, value, flags, sizeof(type)}, waits); \
	}

MEMOP(cuStreamWriteValue32, uint32_t, false)
MEMOP(cuStreamWriteValue64, uint64_t, false)
MEMOP(cuStreamWaitValue32, uint32_t, true)
MEMOP(cuStreamWaitValue64, uint64_t, true)
