/*
 * Pinned memory of the host, for what leaves the device.
 *
 * cuMemHostAlloc takes small pages and pins one after another, for longer than the copy into them
 * takes. So the memory is mapped here, of huge pages where the system has them, written to while
 * copies before it are under way, and then registered with the driver, which takes each page whole.
 * Where any of that fails the driver is asked for the memory.
 */
#include "weir.h"

#include <sys/mman.h>

#define HUGE (UINT64_C(2) << 20)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* of Linux 5.14 */
#endif

/* map gives memory that begins at a huge page, all of it there; NULL: there is none. A child that
 * is forked does not get it: what is pinned must not be copied on write. */
static void *map(uint64_t bytes)
{
	char *from = mmap(
		NULL, bytes + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (from == MAP_FAILED)
		return NULL;
	char *at = (char *)(((uintptr_t)from + HUGE - 1) / HUGE * HUGE);
	if (at > from)
		munmap(from, (size_t)(at - from));
	munmap(at + bytes, (size_t)(from + HUGE - at));
	madvise(at, bytes, MADV_HUGEPAGE);
	if (madvise(at, bytes, MADV_DONTFORK) == 0 && madvise(at, bytes, MADV_POPULATE_WRITE) == 0)
		return at;
	munmap(at, bytes);
	return NULL;
}

/* weir_pinned_take gets memory that a copy of the device's can go to, by way of any context. */
CUresult weir_pinned_take(struct weir_pinned *p, uint64_t bytes)
{
	enum { PORTABLE = 1 };
	weir_fn_cuMemHostRegister_v2 pin = WEIR_DRIVER(cuMemHostRegister_v2);
	*p = (struct weir_pinned){0};
	void *at = pin && WEIR_DRIVER(cuMemHostUnregister) ? map(bytes) : NULL;
	if (at && pin(at, bytes, PORTABLE) == CUDA_SUCCESS) {
		*p = (struct weir_pinned){at, true};
		return CUDA_SUCCESS;
	}
	if (at)
		munmap(at, bytes);
	CUresult r = WEIR_DRIVER(cuMemHostAlloc)(&p->at, bytes, PORTABLE);
	if (r != CUDA_SUCCESS)
		p->at = NULL;
	return r;
}

/* weir_pinned_give gives it back. */
void weir_pinned_give(struct weir_pinned *p, uint64_t bytes)
{
	if (p->mapped) {
		WEIR_DRIVER(cuMemHostUnregister)(p->at);
		munmap(p->at, bytes);
	} else if (p->at) {
		WEIR_DRIVER(cuMemFreeHost)(p->at);
	}
	*p = (struct weir_pinned){0};
}
