// Descriptors for the tensor memory accelerator. Programs fill them in before launches that the
// fake device does not execute, so that what is checked here is what cuda.h binds the parameters
// to; the descriptor's layout is NVIDIA's own affair, and ours holds the parameters as they came.
#include "internal.h"

#include <string.h>

enum { RANKS = 5, U4_ALIGN8B = 13, U4_ALIGN16B = 14, U6_ALIGN16B = 15 };

typedef struct {
	uint64_t address;
	uint32_t type, rank, align, modes;
	uint32_t last[RANKS], box[RANKS], step[RANKS];
	uint64_t stride[RANKS - 1];
} map;

_Static_assert(sizeof(map) <= sizeof(CUtensorMap), "fits the opaque object");

// bits of one element, by CUtensorMapDataType.
static const uint32_t bits[] = {8, 16, 32, 32, 64, 64, 16, 32, 64, 16, 32, 32, 32, 4, 4, 6};

// floating says which of them may be filled with NaN.
static const bool floating[16] = {[6] = true, [7] = true, [8] = true, [9] = true, [10] = true,
	[11] = true, [12] = true};

// padded types lie in shared memory with gaps.
static bool padded(int type) { return type == U4_ALIGN16B || type == U6_ALIGN16B; }

static uint32_t alignment(int type, int interleave) {
	return interleave == 2 || padded(type) ? 32 : 16;
}

static bool modes(int type, uint32_t rank, int interleave, int swizzle, int l2, int fill) {
	if (interleave < 0 || interleave > 2 || swizzle < 0 || swizzle > 6 || l2 < 0 || l2 > 3 ||
		fill < 0 || fill > 1)
		return false;
	if (interleave && rank < 3)
		return false;
	if (interleave == 2 && swizzle != 1)
		return false;
	if (padded(type) && (swizzle == 1 || swizzle == 2 || swizzle == 5))
		return false;
	if (type == U6_ALIGN16B && interleave)
		return false;
	if (type == U4_ALIGN16B && swizzle == 6)
		return false;
	return !fill || floating[type];
}

static bool extents(const map *m, int type, int interleave, int swizzle, const uint64_t *dim,
	const uint64_t *stride, const uint32_t *box, const uint32_t *step) {
	for (uint32_t i = 0; i < m->rank; i++) {
		if (!dim[i] || dim[i] > UINT64_C(1) << 32 || !box[i] || box[i] > 256)
			return false;
		if ((i || interleave) && (!step[i] || step[i] > 8))
			return false;
		if (i && (stride[i - 1] % m->align || stride[i - 1] >= UINT64_C(1) << 40))
			return false;
	}
	if (padded(type) ? dim[0] % 128 || box[0] != 128 : type == U4_ALIGN8B && dim[0] % 2)
		return false;
	uint32_t inner = box[0] * bits[type] / 8, span = swizzle > 2 ? 128 : 16u << swizzle;
	return interleave || (inner % 16 == 0 && (!swizzle || inner <= span));
}

FK_API cuTensorMapEncodeTiled(CUtensorMap *out, int type, uint32_t rank, void *address,
	const uint64_t *dim, const uint64_t *stride, const uint32_t *box, const uint32_t *step,
	int interleave, int swizzle, int l2, int fill) {
	FK_TRY(fk_usable());
	if (!out || (uintptr_t)out % 64 || type < 0 || type > U6_ALIGN16B || !rank || rank > RANKS ||
		!address || !dim || (rank > 1 && !stride) || !box || !step)
		return CUDA_ERROR_INVALID_VALUE;
	map m = {.address = (uintptr_t)address, .type = (uint32_t)type, .rank = rank,
		.align = alignment(type, interleave)};
	if (m.address % m.align || !modes(type, rank, interleave, swizzle, l2, fill) ||
		!extents(&m, type, interleave, swizzle, dim, stride, box, step))
		return CUDA_ERROR_INVALID_VALUE;
	m.modes = (uint32_t)(interleave | swizzle << 4 | l2 << 8 | fill << 12);
	for (uint32_t i = 0; i < rank; i++) {
		m.last[i] = (uint32_t)(dim[i] - 1), m.box[i] = box[i], m.step[i] = step[i];
		if (i)
			m.stride[i - 1] = stride[i - 1];
	}
	memset(out, 0, sizeof *out);
	memcpy(out, &m, sizeof m);
	return CUDA_SUCCESS;
}

FK_API cuTensorMapReplaceAddress(CUtensorMap *out, void *address) {
	FK_TRY(fk_usable());
	map m;
	if (!out || (uintptr_t)out % 64 || !address)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&m, out, sizeof m);
	if (!m.align || (uintptr_t)address % m.align)
		return CUDA_ERROR_INVALID_VALUE;
	m.address = (uintptr_t)address;
	memcpy(out, &m, sizeof m);
	return CUDA_SUCCESS;
}
