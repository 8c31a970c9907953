/*
 * A driver with a few calls only, for tests of the library that stands before it: what it lacks is
 * part of the tests. A function's handle is its duration in nanoseconds; a stream is a clock that
 * says when it is done. What the device holds is in a file that the processes of a test share
 * ($DRIVER_LEDGER).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define API __attribute__((visibility("default"))) int

struct ledger {
	_Atomic uint64_t used, peak, cap;
};
struct stream {
	_Atomic uint64_t until;
};
struct event {
	_Atomic uint64_t at;
};

static struct ledger alone, *ledger = &alone;
static struct stream legacy;
static _Thread_local struct stream own;
static _Thread_local void *current;
static _Atomic uint64_t next_address = 1 << 20;
static _Atomic uint64_t flying_peak;

/* A launch reads a byte from here first, where it is not -1, and says so. */
__attribute__((visibility("default"))) _Atomic int driver_reads = -1, driver_reading;

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

API cuInit(unsigned flags)
{
	const char *path = getenv("DRIVER_LEDGER");
	(void)flags;
	if (path && ledger == &alone) {
		int fd = open(path, O_RDWR | O_CREAT, 0600);
		if (fd >= 0 && ftruncate(fd, 4096) == 0)
			ledger = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		close(fd);
	}
	return 0;
}

API cuDeviceGet(int *d, int n) { *d = n; return 0; }
API cuDeviceTotalMem_v2(size_t *n, int d) { (void)d; *n = UINT64_C(64) << 30; return 0; }
API cuCtxGetCurrent(void **c) { *c = current; return 0; }
API cuCtxPushCurrent_v2(void *c) { current = c; return 0; }
API cuCtxPopCurrent_v2(void **c) { *c = current; return 0; }
API cuCtxCreate_v2(void **c, unsigned flags, int d)
{
	(void)flags;
	(void)d;
	*c = current = malloc(1);
	return 0;
}
API cuCtxDestroy_v2(void *c) { free(c); current = NULL; return 0; }

static uint64_t size_at(uint64_t p) { return *(uint64_t *)p; }

API cuMemAlloc_v2(uint64_t *p, size_t n)
{
	uint64_t used = atomic_fetch_add(&ledger->used, n) + n, peak = ledger->peak;
	while (used > peak && !atomic_compare_exchange_weak(&ledger->peak, &peak, used))
		;
	uint64_t *block = malloc(sizeof *block);
	*block = n;
	*p = (uint64_t)(uintptr_t)block;
	return 0;
}

API cuMemFree_v2(uint64_t p)
{
	atomic_fetch_sub(&ledger->used, size_at(p));
	free((void *)p);
	return 0;
}

API cuMemGetInfo_v2(size_t *f, size_t *t)
{
	*t = UINT64_C(64) << 30;
	*f = *t - ledger->used;
	return 0;
}

static struct stream *of(void *s, int per_thread)
{
	if (s == (void *)2 || (!s && per_thread))
		return &own;
	return !s || s == (void *)1 ? &legacy : s;
}

static void run(struct stream *s, uint64_t ns)
{
	uint64_t t = now(), until = s->until, next;
	do
		next = (until > t ? until : t) + ns;
	while (!atomic_compare_exchange_weak(&s->until, &until, next));
	uint64_t flying = next - t, peak = flying_peak;
	while (flying > peak && !atomic_compare_exchange_weak(&flying_peak, &peak, flying))
		;
}

API cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
	unsigned bz, unsigned m, void *s, void **p, void **e)
{
	(void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)m, (void)e;
	char byte;
	driver_reading = driver_reads >= 0;
	if (driver_reading && read(driver_reads, &byte, 1) != 1)
		return 999;
	/* a function lasts as long as its argument says, or its handle */
	run(of(s, 0), p ? *(const uint64_t *)p[0] : (uint64_t)f);
	return 0;
}

API cuLaunchKernel_ptsz(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
	unsigned bz, unsigned m, void *s, void **p, void **e)
{
	(void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)m, (void)p, (void)e;
	run(of(s, 1), (uint64_t)f);
	return 0;
}

API cuGraphLaunch(void *g, void *s) { run(of(s, 0), (uint64_t)g); return 0; }
API cuStreamCreate(void **s, unsigned flags)
{
	(void)flags;
	*s = calloc(1, sizeof(struct stream));
	return 0;
}
API cuStreamDestroy_v2(void *s) { free(s); return 0; }
API cuStreamGetCtx(void *s, void **c) { (void)s; *c = current; return 0; }
API cuEventCreate(void **e, unsigned flags)
{
	(void)flags;
	*e = calloc(1, sizeof(struct event));
	return 0;
}

API cuEventRecord(void *e, void *s)
{
	uint64_t t = now(), until = of(s, 0)->until;
	((struct event *)e)->at = until > t ? until : t;
	return 0;
}

API cuEventQuery(void *e) { return ((struct event *)e)->at <= now() ? 0 : 600; }

static void sleep_until(uint64_t at)
{
	struct timespec t = {(time_t)(at / 1000000000u), (long)(at % 1000000000u)};
	while (now() < at)
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

API cuEventSynchronize(void *e) { sleep_until(((struct event *)e)->at); return 0; }
API cuStreamSynchronize(void *s) { sleep_until(of(s, 0)->until); return 0; }

API cuEventElapsedTime(float *ms, void *a, void *b)
{
	*ms = (float)((double)(int64_t)(((struct event *)b)->at - ((struct event *)a)->at) / 1e6);
	return 0;
}

/* For tests: the most that was ever queued on one stream, in nanoseconds. */
__attribute__((visibility("default"))) uint64_t driver_flying_peak(void) { return flying_peak; }

/* An old form of cuMemFree that a test can tell from the new one. */
API cuMemFree(unsigned p) { (void)p; return 4711; }

/* A call of a CUDA later than any that is listed: a third cuMemFree. */
static int free_v9(uint64_t p) { (void)p; return 4713; }

API cuGetProcAddress_v2(const char *name, void **f, int version, uint64_t flags, int *status)
{
	*f = NULL;
	if (!strcmp(name, "cuMemFree"))
		*f = version >= 99000 ? (void *)free_v9
			: version >= 3020 ? (void *)cuMemFree_v2
							  : (void *)cuMemFree;
	if (!strcmp(name, "cuMemAlloc") && version >= 3020)
		*f = (void *)cuMemAlloc_v2;
	if (!strcmp(name, "cuLaunchKernel"))
		*f = flags & 2 ? (void *)cuLaunchKernel_ptsz : (void *)cuLaunchKernel;
	if (!strcmp(name, "cuEventQuery"))
		*f = (void *)cuEventQuery;
	if (status)
		*status = *f ? 0 : 1;
	return *f ? 0 : 500;
}
