// Launches: kernels and host functions.
#include "image.h"

#include <stdlib.h>
#include <string.h>

// xorshift64*, after Vigna, "An experimental exploration of Marsaglia's xorshift generators,
// scrambled", 2016.
static uint64_t random_number(void) {
	uint64_t x = fk.random;
	x ^= x >> 12, x ^= x << 25, x ^= x >> 27;
	fk.random = x;
	return x * UINT64_C(0x2545F4914F6CDD1D);
}

uint64_t fk_draw(const fk_task *t) {
	if (t->function && t->function->argument >= 0)
		return t->argument * t->least_ns;
	return t->most_ns > t->least_ns ? t->least_ns + random_number() % (t->most_ns - t->least_ns + 1)
									: t->least_ns;
}

CUresult fk_submit(CUstream handle, const fk_task *t, fk_queue **q, uint64_t *seq) {
	CUstream s;
	fk_enter();
	CUresult r = fk_stream(handle, &s);
	if (!r)
		fk_spend(FK_KNOB(&fk_queue_of(s)->device, launch_ns));
	if (!r)
		r = fk_capture_conflict(s);
	if (r)
		return fk_leave(r);
	if (q)
		*q = s->capture ? NULL : fk_queue_of(s);
	if (s->capture)
		return fk_leave(t->once
				? fk_capture_break(s->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
				: fk_capture_add(s, t, NULL));
	fk_item item = {.kind = t->mark ? FK_MARK
			: t->type == CU_GRAPH_NODE_TYPE_HOST ? FK_HOST
												 : FK_WORK,
		.call = t->call,
		.until = t->until,
		.data = t->data,
		.waited = t->waited,
		.copy = t->type == CU_GRAPH_NODE_TYPE_MEMCPY};
	r = fk_task_effect(t, false, &item.effect, &item.faults);
	if (r)
		return fk_leave(r);
	if (item.kind == FK_WORK)
		item.duration_ns = fk_draw(t);
	fk_push(s, item, seq);
	return fk_leave(CUDA_SUCCESS);
}

CUresult fk_task_effect(const fk_task *t, bool later, fk_effect **out, bool *faults) {
	*out = NULL;
	*faults = t->function && t->function->faults;
	if (t->motion.action == FK_NOTHING)
		return CUDA_SUCCESS;
	*out = fk_effect_of(&t->motion, later || t->waited);
	*faults |= !*out && (later || t->type == CU_GRAPH_NODE_TYPE_KERNEL);
	return *out || *faults ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// shape is grid, block and shared memory; extra is the other way to pass parameters, as one buffer.
static CUresult launch(
	CUfunction f, const unsigned int *shape, CUstream s, void **params, void **extra) {
	FK_TRY(fk_usable());
	if (!FK_IS(f, FK_FUNCTION))
		return CUDA_ERROR_INVALID_HANDLE;
	for (int i = 0; i < 6; i++)
		if (!shape[i])
			return CUDA_ERROR_INVALID_VALUE;
	if ((uint64_t)shape[3] * shape[4] * shape[5] > 1024 || (params && extra))
		return CUDA_ERROR_INVALID_VALUE;
	if (shape[3] * shape[4] * shape[5] > (unsigned int)f->attributes[0])
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	if (shape[6] > (unsigned int)f->attributes[8])
		return CUDA_ERROR_INVALID_VALUE;
	fk_task t = {.type = CU_GRAPH_NODE_TYPE_KERNEL,
		.least_ns = f->least_ns,
		.most_ns = f->most_ns,
		.function = f};
	memcpy(t.shape, shape, sizeof t.shape);
	FK_TRY(fk_load_function(f));
	FK_TRY(fk_arguments(f, params, extra, &t));
	return fk_submit(s, &t, NULL, NULL);
}

// argument reads one parameter. In a buffer each lies at a multiple of its size; offset is where.
static void argument(void **params, void **extra, int i, size_t offset, void *out, size_t size) {
	if (params)
		memcpy(out, params[i], size);
	else
		memcpy(out, (const char *)extra[1] + offset, size);
}

// motion is what a kernel does with its first three parameters: address, value and number of words,
// or addresses to and from and number of words.
static fk_motion motion(CUfunction f, const uint64_t arguments[4]) {
	fk_motion m = fk_linear_copy(arguments[0], arguments[1], 4 * arguments[2]);
	m.action = m.width ? f->does : FK_NOTHING;
	m.value = arguments[1], m.size = 4;
	return m;
}

CUresult fk_arguments(CUfunction f, void **params, void **extra, fk_task *t) {
	bool effect = f->does != FK_NOTHING, copies = f->does == FK_COPY;
	if (!effect && f->argument < 0)
		return CUDA_SUCCESS;
	if (!params && !(extra && extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER))
		return CUDA_ERROR_INVALID_VALUE;
	if (effect) {
		argument(params, extra, 0, 0, &t->arguments[0], 8);
		argument(params, extra, 1, 8, &t->arguments[1], copies ? 8 : 4);
		argument(params, extra, 2, copies ? 16 : 12, &t->arguments[2], 4);
	}
	if (f->argument >= 0)
		argument(params, extra, f->argument, !effect ? 0 : copies ? 20 : 16, &t->argument, 4);
	t->motion = motion(f, t->arguments);
	return CUDA_SUCCESS;
}

FK_API cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
	unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared, CUstream s,
	void **params, void **extra) {
	return launch(f, (unsigned int[]){gx, gy, gz, bx, by, bz, shared}, s, params, extra);
}

FK_API cuLaunchKernel_ptsz(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
	unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared, CUstream s,
	void **params, void **extra) {
	return launch(f, (unsigned int[]){gx, gy, gz, bx, by, bz, shared}, fk_ptsz(s), params, extra);
}

static const CUlaunchAttribute *attribute_of(const CUlaunchConfig *c, int id) {
	for (unsigned int i = 0; c->attrs && i < c->numAttrs; i++)
		if (c->attrs[i].id == id)
			return &c->attrs[i];
	return NULL;
}

void fk_cluster_of(CUfunction f, const CUlaunchConfig *c, unsigned int shape[3]) {
	const CUlaunchAttribute *a = attribute_of(c, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
	for (int i = 0; i < 3; i++) {
		// 11 to 13: what the kernel was compiled for
		unsigned int own = (unsigned int)f->attributes[11 + i];
		shape[i] = a && a->value.clusterDim[i] ? a->value.clusterDim[i] : own ? own : 1;
	}
}

// cooperative checks that all blocks run at once, as blocks that wait for each other must.
static CUresult cooperative(CUfunction f, const unsigned int *shape) {
	int blocks = 0, size = (int)(shape[3] * shape[4] * shape[5]);
	FK_TRY(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, size, shape[6]));
	uint64_t grid = (uint64_t)shape[0] * shape[1] * shape[2];
	return grid > (uint64_t)blocks * fk.width ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
											  : CUDA_SUCCESS;
}

static CUresult clusters(CUfunction f, const CUlaunchConfig *c, const unsigned int *grid) {
	unsigned int shape[3];
	fk_cluster_of(f, c, shape);
	unsigned int most = f->attributes[14] ? 16 : 8; // 14: sizes that not all devices have
	if (shape[0] * shape[1] * shape[2] > most)
		return CUDA_ERROR_INVALID_CLUSTER_SIZE;
	for (int i = 0; i < 3; i++)
		if (grid[i] % shape[i])
			return CUDA_ERROR_INVALID_CLUSTER_SIZE;
	return CUDA_SUCCESS;
}

// record serves the attributes that name an event, which is taken at the launch's end.
static CUresult record(const CUlaunchConfig *c, int id) {
	const CUlaunchAttribute *a = attribute_of(c, id);
	return a ? cuEventRecord(a->value.event, c->hStream) : CUDA_SUCCESS;
}

FK_API cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params, void **extra) {
	FK_TRY(fk_usable());
	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	if (!FK_IS(f, FK_FUNCTION))
		return CUDA_ERROR_INVALID_HANDLE;
	const unsigned int shape[] = {c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX,
		c->blockDimY, c->blockDimZ, c->sharedMemBytes};
	const CUlaunchAttribute *all = attribute_of(c, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
	if (all && all->value.cooperative)
		FK_TRY(cooperative(f, shape));
	FK_TRY(clusters(f, c, shape));
	FK_TRY(launch(f, shape, c->hStream, params, extra));
	FK_TRY(record(c, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT));
	return record(c, CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT);
}

FK_API cuLaunchKernelEx_ptsz(const CUlaunchConfig *c, CUfunction f, void **params, void **extra) {
	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	CUlaunchConfig own = *c;
	own.hStream = fk_ptsz(c->hStream);
	return cuLaunchKernelEx(&own, f, params, extra);
}

FK_API cuLaunchCooperativeKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
	unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared, CUstream s,
	void **params) {
	const unsigned int shape[] = {gx, gy, gz, bx, by, bz, shared};
	FK_TRY(fk_usable());
	if (!FK_IS(f, FK_FUNCTION))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!bx || !by || !bz)
		return CUDA_ERROR_INVALID_VALUE;
	FK_TRY(cooperative(f, shape));
	return launch(f, shape, s, params, NULL);
}

FK_API cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int gx, unsigned int gy,
	unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
	CUstream s, void **params) {
	return cuLaunchCooperativeKernel(
		f, gx, gy, gz, bx, by, bz, shared, fk_ptsz(s), params);
}

FK_API cuLaunchCooperativeKernelMultiDevice(
	CUDA_LAUNCH_PARAMS *list, unsigned int count, unsigned int flags) {
	if (!list || !count || flags > 3)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < count; i++) {
		const CUDA_LAUNCH_PARAMS *p = &list[i];
		const unsigned int shape[] = {p->gridDimX, p->gridDimY, p->gridDimZ, p->blockDimX,
			p->blockDimY, p->blockDimZ, p->sharedMemBytes};
		FK_TRY(launch(p->function, shape, p->hStream, p->kernelParams, NULL));
	}
	return CUDA_SUCCESS;
}

FK_API cuLaunchGridAsync(CUfunction f, int width, int height, CUstream s) {
	if (width <= 0 || height <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	uint64_t none = 0;
	return launch(f, (unsigned int[]){(unsigned)width, (unsigned)height, 1, 1, 1, 1, 0}, s,
		(void *[]){&none, &none, &none, &none}, NULL);
}

FK_API cuLaunchGrid(CUfunction f, int width, int height) {
	return cuLaunchGridAsync(f, width, height, NULL);
}
FK_API cuLaunch(CUfunction f) { return cuLaunchGridAsync(f, 1, 1, NULL); }

FK_API cuLaunchHostFunc(CUstream s, CUhostFn call, void *data) {
	FK_TRY(fk_usable());
	if (!call)
		return CUDA_ERROR_INVALID_VALUE;
	return fk_submit(
		s, &(fk_task){.type = CU_GRAPH_NODE_TYPE_HOST, .call = call, .data = data}, NULL, NULL);
}

FK_API cuLaunchHostFunc_ptsz(CUstream s, CUhostFn call, void *data) {
	return cuLaunchHostFunc(fk_ptsz(s), call, data);
}

typedef struct {
	CUstream stream;
	CUstreamCallback call;
	void *data;
} callback;

static void run_callback(void *p) {
	callback c = *(callback *)p;
	free(p);
	c.call(c.stream, CUDA_SUCCESS, c.data);
}

FK_API cuStreamAddCallback(CUstream s, CUstreamCallback call, void *data, unsigned int flags) {
	FK_TRY(fk_usable());
	if (!call || flags)
		return CUDA_ERROR_INVALID_VALUE;
	callback *c = malloc(sizeof *c);
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*c = (callback){s, call, data};
	CUresult r = fk_submit(s,
		&(fk_task){.type = CU_GRAPH_NODE_TYPE_HOST, .call = run_callback, .data = c, .once = true},
		NULL, NULL);
	if (r)
		free(c);
	return r;
}

FK_API cuStreamAddCallback_ptsz(CUstream s, CUstreamCallback call, void *data, unsigned int flags) {
	return cuStreamAddCallback(fk_ptsz(s), call, data, flags);
}
