// Stream memory operations in one call. A batch is its operations in order; what orders memory
// beyond that, barriers and flushes of remote writes, has nothing to do here, where all memory is
// one host's.
#include "internal.h"

enum { // CUstreamBatchMemOpType
	WAIT_32 = 1,
	WRITE_32 = 2,
	FLUSH = 3,
	WAIT_64 = 4,
	WRITE_64 = 5,
	BARRIER = 6,
};

enum { MOST = 255 };

static CUresult one(CUstream s, const CUstreamBatchMemOpParams *p) {
	switch (p->operation) {
	case WAIT_32:
		return cuStreamWaitValue32_v2(s, p->word.address, (uint32_t)p->word.value, p->word.flags);
	case WRITE_32:
		return cuStreamWriteValue32_v2(s, p->word.address, (uint32_t)p->word.value, p->word.flags);
	case WAIT_64:
		return cuStreamWaitValue64_v2(s, p->word.address, p->word.value, p->word.flags);
	case WRITE_64:
		return cuStreamWriteValue64_v2(s, p->word.address, p->word.value, p->word.flags);
	default:
		return CUDA_SUCCESS;
	}
}

FK_API cuStreamBatchMemOp_v2(
	CUstream s, unsigned int count, CUstreamBatchMemOpParams *all, unsigned int flags) {
	FK_TRY(fk_usable());
	if (flags || !all || count > MOST)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < count; i++)
		if (all[i].operation < WAIT_32 || all[i].operation > BARRIER)
			return CUDA_ERROR_NOT_SUPPORTED;
	for (unsigned int i = 0; i < count; i++)
		FK_TRY(one(s, &all[i]));
	return CUDA_SUCCESS;
}

FK_API cuStreamBatchMemOp_v2_ptsz(
	CUstream s, unsigned int count, CUstreamBatchMemOpParams *all, unsigned int flags) {
	return cuStreamBatchMemOp_v2(fk_ptsz(s), count, all, flags);
}

FK_API cuStreamBatchMemOp(
	CUstream s, unsigned int count, CUstreamBatchMemOpParams *all, unsigned int flags) {
	return cuStreamBatchMemOp_v2(s, count, all, flags);
}

FK_API cuStreamBatchMemOp_ptsz(
	CUstream s, unsigned int count, CUstreamBatchMemOpParams *all, unsigned int flags) {
	return cuStreamBatchMemOp_v2(fk_ptsz(s), count, all, flags);
}
