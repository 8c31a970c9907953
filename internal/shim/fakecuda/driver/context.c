// Contexts. A process has one queue per device, whatever its contexts; each context takes memory of
// its own.
#include "internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEPTH = 64 };
static _Thread_local CUcontext stack[DEPTH];
static _Thread_local int depth;

static CUcontext primaries[FK_DEVICES];

CUcontext fk_primary(CUdevice device) {
	if (!primaries[device])
		primaries[device] = calloc(1, sizeof **primaries);
	return primaries[device];
}

static bool is_primary(CUcontext c) {
	for (uint32_t i = 0; i < fk.count; i++)
		if (c && c == primaries[i])
			return true;
	return false;
}

CUresult fk_current(CUcontext *c) {
	FK_TRY(fk_usable());
	*c = depth ? stack[depth - 1] : NULL;
	if (FK_IS(*c, FK_CONTEXT))
		return fk_ended((*c)->device, fk_root(*c)->id);
	return is_primary(*c) ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult fk_sound(void) {
	FK_TRY(fk_usable());
	CUcontext c = depth ? stack[depth - 1] : NULL;
	return FK_IS(c, FK_CONTEXT) ? fk_ended(c->device, fk_root(c)->id) : CUDA_SUCCESS;
}

CUresult fk_ended(CUdevice d, uint64_t context) {
	if (!atomic_load(&fk.faults) || fk.queues[d].device.slot == FK_NONE)
		return CUDA_SUCCESS;
	fk_device *device = &fk.queues[d].device;
	fk_lock(device);
	fk_advance(device);
	bool ended = fk_faulted(device) == (uint32_t)context;
	fk_unlock(device);
	return ended ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

// hold waits until $WEIR_FAKE_HOLD can be read to its end: with a FIFO there, a test says when a
// context is made.
static void hold(void) {
	const char *path = getenv("WEIR_FAKE_HOLD");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	char c;
	while (fd >= 0 && read(fd, &c, 1) > 0)
		;
	if (fd >= 0)
		close(fd);
}

CUresult fk_context_take(CUcontext c, uint64_t bytes) {
	fk_device *d = &fk.queues[c->device].device;
	fk_lock(d);
	bool fits = fk_take(d, bytes, true);
	fk_unlock(d);
	c->bytes += fits ? bytes : 0;
	return fits ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void fk_context_give(CUcontext c, uint64_t bytes) {
	fk_device *d = &fk.queues[c->device].device;
	fk_lock(d);
	fk_give(d, bytes, true);
	fk_unlock(d);
	c->bytes -= bytes;
}

// size is what a new context takes: what the terms say and a part of the spread, by process.
static uint64_t size(const fk_device *d) {
	const fk_terms *t = &d->file->terms;
	uint64_t most = t->context / 100 * t->knobs.context_spread;
	return t->context + most / 8 * ((uint64_t)getpid() % 9);
}

// make creates a context with its default stream. Called with fk.lock held.
static CUresult make(
	CUcontext *out, CUdevice device, unsigned int flags, uint32_t width, bool primary) {
	FK_TRY(fk_join(device));
	CUcontext c = primary ? fk_primary(device) : calloc(1, sizeof *c);
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	hold();
	fk_exit_with(true);
	c->device = device;
	CUresult r = fk_context_take(c, size(&fk.queues[device].device));
	if (r) {
		if (!primary)
			free(c);
		return r;
	}
	c->kind = FK_CONTEXT, c->flags = flags, c->width = width,
	c->primary = primary,
	c->id = ++fk.context_ids;
	c->limits[0] = 1024, c->limits[1] = FK_MIB, c->limits[2] = 8 * FK_MIB;
	c->legacy = fk_new_stream(c, 0, 0);
	*out = c;
	return CUDA_SUCCESS;
}

static CUcontext gone; // green contexts, which the stacks of threads may still name

static void drop_streams(CUcontext c) {
	while (c->streams) {
		CUstream s = c->streams;
		c->streams = s->next;
		s->kind = 0;
		free(s->front);
		s->front = NULL;
		if (!s->per_thread) {
			free(s);
			continue;
		}
		s->next = fk.retired;
		fk.retired = s;
	}
}

// destroy waits for the context's work, then frees what it holds. Called without the lock.
static CUresult destroy(CUcontext c) {
	fk_queue *q = &fk.queues[c->device];
	fk_wait_all(q);
	if (FK_KNOB(&q->device, teardown_us))
		fk_sleep_until(NULL, 0, fk_now() + 1000 * FK_KNOB(&q->device, teardown_us));
	fk_storage_of_context(c);
	fk_enter();
	fk_memory_of_context(c);
	fk_arrays_of_context(c);
	fk_imports_of_context(c);
	fk_context_give(c, c->bytes);
	drop_streams(c);
	while (c->greens) {
		CUcontext g = c->greens;
		c->greens = g->next;
		drop_streams(g);
		g->kind = 0, g->next = gone;
		gone = g;
	}
	if (q->primary == c)
		q->primary = NULL;
	c->kind = 0;
	if (c->primary)
		memset(c, 0, sizeof *c); // the handle stays that of the primary context
	else
		free(c);
	for (int i = depth; i-- > 0;)
		if (stack[i] == c) {
			for (int j = i; j + 1 < depth; j++)
				stack[j] = stack[j + 1];
			depth--;
		}
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice device) {
	FK_TRY(fk_device_ok(device));
	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	fk_queue *q = &fk.queues[device];
	CUresult r = q->primary
		? CUDA_SUCCESS
		: make(&q->primary, device, q->primary_flags, fk_mps_width(), true);
	if (r)
		return fk_leave(r);
	q->primary->retained++;
	*c = q->primary;
	return fk_leave(CUDA_SUCCESS);
}

static CUresult release(CUdevice device, bool all) {
	FK_TRY(fk_device_ok(device));
	fk_enter();
	CUcontext c = fk.queues[device].primary;
	if (!c)
		return fk_leave(all ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT);
	bool last = all || !--c->retained;
	fk_leave(0);
	return last ? destroy(c) : CUDA_SUCCESS;
}

FK_API cuDevicePrimaryCtxRelease_v2(CUdevice device) { return release(device, false); }
FK_API cuDevicePrimaryCtxRelease(CUdevice device) { return release(device, false); }
FK_API cuDevicePrimaryCtxReset_v2(CUdevice device) { return release(device, true); }
FK_API cuDevicePrimaryCtxReset(CUdevice device) { return release(device, true); }

FK_API cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags) {
	FK_TRY(fk_device_ok(device));
	fk_enter();
	fk.queues[device].primary_flags = flags;
	if (fk.queues[device].primary)
		fk.queues[device].primary->flags = flags;
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags) {
	return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

FK_API cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active) {
	FK_TRY(fk_device_ok(device));
	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	*flags = fk.queues[device].primary_flags;
	*active = fk.queues[device].primary != NULL;
	return fk_leave(CUDA_SUCCESS);
}

// hold_green lets a green context be on one thread's stack at a time: "a green context can be
// current to only one thread at a time" (cuGreenCtxCreate).
static CUresult hold_green(CUcontext c) {
	uint32_t self = c->of ? fk_thread() : 0;
	if (!c->of)
		return CUDA_SUCCESS;
	fk_enter();
	bool ours = !c->holds || c->holder == self;
	if (ours)
		c->holder = self, c->holds++;
	return fk_leave(ours ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT);
}

static CUcontext take_off(void) {
	CUcontext c = stack[--depth];
	fk_enter();
	if (FK_IS(c, FK_CONTEXT) && c->of)
		c->holds--;
	fk_leave(0);
	return c;
}

FK_API cuCtxPushCurrent_v2(CUcontext c) {
	FK_TRY(fk_usable());
	if (!FK_IS(c, FK_CONTEXT) && !is_primary(c))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (depth == DEPTH)
		return CUDA_ERROR_OUT_OF_MEMORY;
	FK_TRY(hold_green(c));
	stack[depth++] = c;
	return CUDA_SUCCESS;
}

FK_API cuCtxPushCurrent(CUcontext c) { return cuCtxPushCurrent_v2(c); }

FK_API cuCtxPopCurrent_v2(CUcontext *c) {
	FK_TRY(fk_usable());
	if (!depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	CUcontext was = take_off();
	if (c)
		*c = was;
	return CUDA_SUCCESS;
}

FK_API cuCtxPopCurrent(CUcontext *c) { return cuCtxPopCurrent_v2(c); }

FK_API cuCtxSetCurrent(CUcontext c) {
	FK_TRY(fk_usable());
	if (c && !FK_IS(c, FK_CONTEXT) && !is_primary(c))
		return CUDA_ERROR_INVALID_CONTEXT;
	FK_TRY(c ? hold_green(c) : CUDA_SUCCESS);
	if (depth)
		take_off();
	if (c)
		stack[depth++] = c;
	return CUDA_SUCCESS;
}

FK_API cuCtxGetCurrent(CUcontext *c) {
	FK_TRY(fk_usable());
	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	*c = depth ? stack[depth - 1] : NULL;
	return CUDA_SUCCESS;
}

FK_API cuCtxCreate_v3(CUcontext *out, CUexecAffinityParam *params, int count, unsigned int flags,
	CUdevice device) {
	FK_TRY(fk_device_ok(device));
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	uint32_t width;
	fk_enter();
	CUresult r = fk_mps_affinity(params, count, &width);
	FK_TRY(fk_leave(r ? r : make(out, device, flags, width, false)));
	return cuCtxPushCurrent_v2(*out);
}

FK_API cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice device) {
	return cuCtxCreate_v3(out, NULL, 0, flags, device);
}

FK_API cuCtxCreate(CUcontext *out, unsigned int flags, CUdevice device) {
	return cuCtxCreate_v2(out, flags, device);
}

FK_API cuCtxCreate_v4(
	CUcontext *out, CUctxCreateParams *p, unsigned int flags, CUdevice device) {
	if (p && p->cigParams)
		return CUDA_ERROR_NOT_SUPPORTED;
	return p ? cuCtxCreate_v3(out, p->execAffinityParams, p->numExecAffinityParams, flags, device)
			 : cuCtxCreate_v2(out, flags, device);
}

FK_API cuCtxDestroy_v2(CUcontext c) {
	FK_TRY(fk_usable());
	return FK_IS(c, FK_CONTEXT) && !c->primary && !c->of ? destroy(c) : CUDA_ERROR_INVALID_CONTEXT;
}

FK_API cuCtxDestroy(CUcontext c) { return cuCtxDestroy_v2(c); }

FK_API cuCtxAttach(CUcontext *c, unsigned int flags) {
	CUcontext here;
	FK_TRY(fk_current(&here));
	if (!c || flags || here->primary || here->of)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	here->attached++;
	*c = here;
	return fk_leave(CUDA_SUCCESS);
}

// cuCtxDetach takes the current context only, and destroys it when its usage count goes to 0.
FK_API cuCtxDetach(CUcontext c) {
	CUcontext here;
	FK_TRY(fk_current(&here));
	if (c != here || c->primary || c->of)
		return CUDA_ERROR_INVALID_CONTEXT;
	fk_enter();
	bool last = !c->attached;
	c->attached -= !last;
	fk_leave(CUDA_SUCCESS);
	return last ? destroy(c) : CUDA_SUCCESS;
}

FK_API cuCtxGetDevice(CUdevice *device) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = c->device;
	return CUDA_SUCCESS;
}

FK_API cuCtxGetFlags(unsigned int *flags) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = c->flags;
	return CUDA_SUCCESS;
}

FK_API cuCtxSetFlags(unsigned int flags) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	c->flags = flags;
	return CUDA_SUCCESS;
}

FK_API cuCtxGetId(CUcontext c, unsigned long long *id) {
	CUcontext here = c;
	FK_TRY(c ? CUDA_SUCCESS : fk_current(&here));
	if (!id || !FK_IS(here, FK_CONTEXT))
		return CUDA_ERROR_INVALID_VALUE;
	*id = here->id;
	return CUDA_SUCCESS;
}

FK_API cuCtxGetApiVersion(CUcontext c, unsigned int *version) {
	if (!version || (c && !FK_IS(c, FK_CONTEXT)))
		return CUDA_ERROR_INVALID_VALUE;
	*version = 3020;
	return CUDA_SUCCESS;
}

// beyond is the memory that a limit takes; what the standard one takes is part of the context. A
// stack is that of each thread that can be resident.
static uint64_t beyond(fk_queue *q, int limit, uint64_t value) {
	enum { STACK = 1024, FIFO = 1 << 20, THREADS = 2048 };
	if (limit == CU_LIMIT_STACK_SIZE && FK_KNOB(&q->device, stack) && value > STACK)
		return (value - STACK) * THREADS * FK_SMS;
	if (limit == CU_LIMIT_PRINTF_FIFO_SIZE && FK_KNOB(&q->device, fifo) && value > FIFO)
		return value - FIFO;
	return 0;
}

// limit_to sets a limit, and takes or gives back what it takes more or less than before.
static CUresult limit_to(CUcontext c, int limit, uint64_t value) {
	fk_queue *q = &fk.queues[c->device];
	if (beyond(q, limit, UINT32_MAX))
		fk_wait_all(q);
	fk_enter();
	uint64_t was = beyond(q, limit, c->limits[limit]), is = beyond(q, limit, value);
	CUresult r = is > was ? fk_context_take(c, is - was) : CUDA_SUCCESS;
	if (is < was)
		fk_context_give(c, was - is);
	if (!r)
		c->limits[limit] = value;
	return fk_leave(r);
}

FK_API cuCtxSetLimit(int limit, size_t value) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	if (limit < 0 || limit >= 16)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	return limit_to(c, limit, value);
}

FK_API cuCtxGetLimit(size_t *value, int limit) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	if (!value || limit < 0 || limit >= 16)
		return value ? CUDA_ERROR_UNSUPPORTED_LIMIT : CUDA_ERROR_INVALID_VALUE;
	*value = c->limits[limit];
	return CUDA_SUCCESS;
}

FK_API cuCtxGetCacheConfig(int *config) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	*config = 0;
	return CUDA_SUCCESS;
}

FK_API cuCtxSetCacheConfig(int config) {
	CUcontext c;
	(void)config;
	return fk_current(&c);
}

FK_API cuCtxGetStreamPriorityRange(int *least, int *greatest) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	if (least)
		*least = 0;
	if (greatest)
		*greatest = FK_URGENT;
	return CUDA_SUCCESS;
}

FK_API cuCtxSynchronize(void) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	FK_TRY(fk_unsafe());
	fk_queue *q = &fk.queues[c->device];
	fk_wait_all(q);
	fk_rest(q, c->flags, 0);
	fk_pools_settle(q);
	return fk_ended(c->device, fk_root(c)->id);
}

FK_API cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	return flags || !FK_IS(peer, FK_CONTEXT) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

FK_API cuCtxDisablePeerAccess(CUcontext peer) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	return FK_IS(peer, FK_CONTEXT) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
