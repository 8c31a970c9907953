// Modules. An image is a text: each line "kernel NAME us=250" gives a kernel and its duration;
// "us=10-50000" draws it anew for each launch; "us=arg0" takes it from the launch's first
// parameter, an unsigned int of microseconds. "ns=" likewise in nanoseconds. Other lines are
// ignored. An image without such a line, real PTX or a cubin, is CUDA_ERROR_INVALID_IMAGE.
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// line reads one line of an image into f.
static bool line(const char *text, struct CUfunc_st *f) {
	char unit[3], value[64];
	if (sscanf(text, " kernel %127s %2[nu]s=%63s", f->name, unit, value) != 3)
		return false;
	uint64_t scale = unit[0] == 'u' ? 1000 : 1;
	unsigned long long least, most;
	f->kind = FK_FUNCTION, f->argument = -1;
	if (sscanf(value, "arg%d", &f->argument) == 1)
		f->least_ns = f->most_ns = scale;
	else if (sscanf(value, "%llu-%llu", &least, &most) == 2 && least <= most)
		f->least_ns = least * scale, f->most_ns = most * scale;
	else if (sscanf(value, "%llu", &least) == 1)
		f->least_ns = f->most_ns = least * scale;
	else
		return false;
	// threads, registers, versions
	f->attributes[0] = 1024, f->attributes[4] = 32, f->attributes[5] = f->attributes[6] = 90;
	return f->argument < 16;
}

static bool lazy(const fk_device *d) { return FK_KNOB(d, lazy_us) || FK_KNOB(d, lazy_bytes); }

CUresult fk_load_function(CUfunction f) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	fk_queue *q = &fk.queues[c->device];
	fk_enter();
	if (f->loaded)
		return fk_leave(CUDA_SUCCESS);
	uint64_t code = c->code + FK_KNOB(&q->device, lazy_bytes),
			 more = fk_rounded(c->device, code) - fk_rounded(c->device, c->code);
	CUresult r = more ? fk_context_take(c, more) : CUDA_SUCCESS;
	if (!r)
		f->loaded = true, c->code = code;
	fk_leave(0);
	if (!r && FK_KNOB(&q->device, lazy_sync))
		fk_wait_all(q);
	if (!r)
		fk_spend(1000 * FK_KNOB(&q->device, lazy_us));
	return r;
}

static CUresult load(CUmodule *out, const char *image) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	if (!out || !image)
		return CUDA_ERROR_INVALID_VALUE;
	uint32_t lines = 1;
	for (const char *p = image; *p; p++)
		lines += *p == '\n';
	CUmodule m = calloc(1, sizeof *m);
	struct CUfunc_st *functions = calloc(lines, sizeof *functions);
	if (!m || !functions) {
		free(m);
		free(functions);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	m->kind = FK_MODULE, m->context = c, m->functions = functions;
	for (const char *p = image; p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL)
		if (line(p, &functions[m->count])) {
			functions[m->count].loaded = !lazy(&fk.queues[c->device].device);
			functions[m->count++].module = m;
		}
	if (!m->count) {
		free(functions);
		free(m);
		return CUDA_ERROR_INVALID_IMAGE;
	}
	fk_enter();
	m->next = fk.modules;
	fk.modules = m;
	*out = m;
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuModuleLoadData(CUmodule *out, const void *image) { return load(out, image); }
FK_API cuModuleLoadFatBinary(CUmodule *out, const void *image) { return load(out, image); }

FK_API cuModuleLoadDataEx(
	CUmodule *out, const void *image, unsigned int count, int *options, void **values) {
	(void)count, (void)options, (void)values;
	return load(out, image);
}

FK_API cuModuleLoad(CUmodule *out, const char *path) {
	FK_TRY(fk_usable());
	FILE *f = path ? fopen(path, "r") : NULL;
	if (!f)
		return path ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
	char image[65536];
	image[fread(image, 1, sizeof image - 1, f)] = 0;
	fclose(f);
	return load(out, image);
}

FK_API cuModuleUnload(CUmodule m) {
	FK_TRY(fk_usable());
	if (!FK_IS(m, FK_MODULE))
		return CUDA_ERROR_INVALID_HANDLE;
	fk_enter();
	for (CUmodule *p = &fk.modules; *p; p = &(*p)->next)
		if (*p == m) {
			*p = m->next;
			break;
		}
	m->kind = 0;
	free(m->functions);
	free(m);
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name) {
	FK_TRY(fk_usable());
	if (!out || !name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!FK_IS(m, FK_MODULE))
		return CUDA_ERROR_INVALID_HANDLE;
	for (uint32_t i = 0; i < m->count; i++)
		if (!strcmp(m->functions[i].name, name)) {
			*out = &m->functions[i];
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_NOT_FOUND;
}

FK_API cuModuleGetFunctionCount(unsigned int *count, CUmodule m) {
	FK_TRY(fk_usable());
	if (!count || !FK_IS(m, FK_MODULE))
		return CUDA_ERROR_INVALID_VALUE;
	*count = m->count;
	return CUDA_SUCCESS;
}

FK_API cuModuleEnumerateFunctions(CUfunction *functions, unsigned int count, CUmodule m) {
	FK_TRY(fk_usable());
	if (!functions || !FK_IS(m, FK_MODULE))
		return CUDA_ERROR_INVALID_VALUE;
	for (uint32_t i = 0; i < count && i < m->count; i++)
		functions[i] = &m->functions[i];
	return CUDA_SUCCESS;
}

FK_API cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule m, const char *name) {
	(void)address, (void)bytes, (void)name;
	FK_TRY(fk_usable());
	return FK_IS(m, FK_MODULE) ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_HANDLE;
}

FK_API cuModuleGetLoadingMode(int *mode) {
	FK_TRY(fk_usable());
	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = fk.count && lazy(&fk.queues[0].device) ? 2 : 1; // lazy, eager
	return CUDA_SUCCESS;
}

// A library is a module that belongs to no context, and a kernel is its function in each.
FK_API cuLibraryLoadData(CUlibrary *out, const void *code, int *jit, void **jit_values,
	unsigned int jits, int *options, void **values, unsigned int count) {
	(void)jit, (void)jit_values, (void)jits, (void)options, (void)values, (void)count;
	return load((CUmodule *)out, code);
}

FK_API cuLibraryUnload(CUlibrary l) { return cuModuleUnload((CUmodule)l); }
FK_API cuLibraryGetKernel(CUkernel *out, CUlibrary l, const char *name) {
	return cuModuleGetFunction(out, (CUmodule)l, name);
}
FK_API cuLibraryGetKernelCount(unsigned int *count, CUlibrary l) {
	return cuModuleGetFunctionCount(count, (CUmodule)l);
}

FK_API cuLibraryGetModule(CUmodule *out, CUlibrary l) {
	FK_TRY(fk_usable());
	if (!out || !FK_IS(l, FK_MODULE))
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUmodule)l;
	return CUDA_SUCCESS;
}

FK_API cuKernelGetFunction(CUfunction *out, CUkernel k) {
	FK_TRY(fk_usable());
	if (!out || !FK_IS(k, FK_FUNCTION))
		return CUDA_ERROR_INVALID_VALUE;
	*out = k;
	return CUDA_SUCCESS;
}

FK_API cuKernelGetName(const char **name, CUkernel k) {
	FK_TRY(fk_usable());
	if (!name || !FK_IS(k, FK_FUNCTION))
		return CUDA_ERROR_INVALID_VALUE;
	*name = k->name;
	return CUDA_SUCCESS;
}

FK_API cuFuncGetName(const char **name, CUfunction f) { return cuKernelGetName(name, f); }

FK_API cuFuncGetModule(CUmodule *out, CUfunction f) {
	FK_TRY(fk_usable());
	if (!out || !FK_IS(f, FK_FUNCTION))
		return CUDA_ERROR_INVALID_VALUE;
	*out = f->module;
	return CUDA_SUCCESS;
}

FK_API cuFuncGetAttribute(int *value, int attribute, CUfunction f) {
	FK_TRY(fk_usable());
	if (!value || attribute < 0 || attribute >= 16)
		return CUDA_ERROR_INVALID_VALUE;
	if (!FK_IS(f, FK_FUNCTION))
		return CUDA_ERROR_INVALID_HANDLE;
	*value = f->attributes[attribute];
	return CUDA_SUCCESS;
}

FK_API cuFuncSetAttribute(CUfunction f, int attribute, int value) {
	FK_TRY(fk_usable());
	if (!FK_IS(f, FK_FUNCTION) || attribute < 0 || attribute >= 16)
		return CUDA_ERROR_INVALID_VALUE;
	f->attributes[attribute] = value;
	return CUDA_SUCCESS;
}

FK_API cuFuncSetCacheConfig(CUfunction f, int config) {
	(void)config;
	FK_TRY(fk_usable());
	return FK_IS(f, FK_FUNCTION) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

FK_API cuFuncSetSharedMemConfig(CUfunction f, int config) {
	return cuFuncSetCacheConfig(f, config);
}
FK_API cuFuncLoad(CUfunction f) {
	FK_TRY(cuFuncSetCacheConfig(f, 0));
	return fk_load_function(f);
}

FK_API cuFuncIsLoaded(int *state, CUfunction f) {
	FK_TRY(fk_usable());
	if (!state || !FK_IS(f, FK_FUNCTION))
		return CUDA_ERROR_INVALID_VALUE;
	*state = f->loaded;
	return CUDA_SUCCESS;
}

FK_API cuOccupancyMaxActiveBlocksPerMultiprocessor(
	int *blocks, CUfunction f, int block, size_t shared) {
	FK_TRY(fk_usable());
	if (!blocks || !FK_IS(f, FK_FUNCTION) || block <= 0 || shared > 232448)
		return CUDA_ERROR_INVALID_VALUE;
	*blocks = 2048 / block < 32 ? 2048 / block : 32;
	return CUDA_SUCCESS;
}

FK_API cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
	int *blocks, CUfunction f, int block, size_t shared, unsigned int flags) {
	(void)flags;
	return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, f, block, shared);
}

FK_API cuOccupancyMaxPotentialBlockSize(
	int *grid, int *block, CUfunction f, size_t (*shared_of)(int), size_t shared, int limit) {
	(void)shared_of, (void)shared;
	FK_TRY(fk_usable());
	if (!grid || !block || !FK_IS(f, FK_FUNCTION))
		return CUDA_ERROR_INVALID_VALUE;
	*block = limit > 0 && limit < 1024 ? limit : 1024;
	*grid = 128;
	return CUDA_SUCCESS;
}
