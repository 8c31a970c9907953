// Modules. An image is one of NVIDIA's (image.h), or a text: each line "kernel NAME us=250" gives a
// kernel and its duration; "us=10-50000" draws it anew for each launch; "us=arg0" takes it from the
// launch's first parameter, an unsigned int of microseconds. "ns=" likewise in nanoseconds. A word
// behind it says what the kernel does: "does=fill" and "does=add" set, or add to, words of 4 bytes
// (parameters: address, value, number of words; the latter two of 4 bytes), "does=copy" copies
// words (to, from, number); "fault" is an access to an illegal address, as that of memory that is
// not there is. Other lines are ignored. A text without such a line is CUDA_ERROR_INVALID_IMAGE.
#include "image.h"
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// effect is what a kernel does.
static fk_action effect(const char *word) {
	return !strcmp(word, "does=fill") ? FK_SET
		: !strcmp(word, "does=add")   ? FK_ADD
		: !strcmp(word, "does=copy")  ? FK_COPY
									  : FK_NOTHING;
}

// line reads one line of an image into f.
static bool line(const char *text, struct CUmod_st *m) {
	char name[128], unit[3], value[64], end[16] = "";
	if (sscanf(text, " kernel %127s %2[nu]s=%63s%*[ ]%15[a-z=]", name, unit, value, end) < 3)
		return false;
	uint64_t scale = unit[0] == 'u' ? 1000 : 1;
	unsigned long long least, most;
	int32_t argument = -1;
	if (sscanf(value, "arg%d", &argument) == 1)
		least = most = 1;
	else if (sscanf(value, "%llu-%llu", &least, &most) != 2 || least > most) {
		if (sscanf(value, "%llu", &least) != 1)
			return false;
		most = least;
	}
	struct CUfunc_st *f = argument < 16 ? fk_kernel(m, name, strlen(name)) : NULL;
	if (!f)
		return false;
	f->faults = !strcmp(end, "fault");
	f->argument = argument, f->least_ns = least * scale, f->most_ns = most * scale;
	f->does = effect(end);
	fk_limits(f);
	return true;
}

static CUresult read_text(struct CUmod_st *m, const char *image) {
	for (const char *p = image; p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL)
		line(p, m);
	return m->count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

static CUresult read_image(struct CUmod_st *m, const void *image) {
	fk_image i;
	FK_TRY(fk_image_of(image, &i));
	CUresult r = !i.data ? read_text(m, image) : i.text ? fk_ptx(m, &i) : fk_cubin(m, &i);
	free(i.owned);
	return r;
}

static void forget(struct CUmod_st *m) {
	fk_module_drop(m);
	fk_module_free(m);
	m->kind = 0;
	free(m);
}

CUresult fk_module_read(struct CUmod_st *m) {
	const void *image = m->unread;
	m->unread = NULL;
	CUresult r = image ? read_image(m, image) : m->unreadable;
	m->unreadable = r;
	return r;
}

CUresult fk_module_load(CUmodule *out, const void *image, CUcontext c, bool later) {
	if (!out || !image)
		return CUDA_ERROR_INVALID_VALUE;
	CUmodule m = calloc(1, sizeof *m);
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->kind = FK_MODULE, m->context = c, m->unread = image;
	fk_enter();
	CUdeviceptr at;
	CUresult r = later ? CUDA_SUCCESS : fk_module_read(m);
	if (!r && c)
		r = fk_module_place(m, c, &at);
	if (r) {
		forget(m);
		return fk_leave(r);
	}
	m->next = fk.modules;
	fk.modules = m;
	*out = m;
	return fk_leave(CUDA_SUCCESS);
}

static CUresult load(CUmodule *out, const void *image) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	return fk_module_load(out, image, fk_root(c), false);
}

FK_API cuModuleLoadData(CUmodule *out, const void *image) { return load(out, image); }
FK_API cuModuleLoadFatBinary(CUmodule *out, const void *image) { return load(out, image); }

FK_API cuModuleLoadDataEx(
	CUmodule *out, const void *image, unsigned int count, int *options, void **values) {
	(void)count, (void)options, (void)values;
	return load(out, image);
}

CUresult fk_read_file(const char *path, char **out, size_t *bytes_out) {
	FILE *f = path ? fopen(path, "rb") : NULL;
	if (!f)
		return path ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
	long bytes = fseek(f, 0, SEEK_END) ? -1 : ftell(f);
	rewind(f);
	char *all = bytes >= 0 ? calloc(1, (size_t)bytes + 64) : NULL;
	bool ok = all && fread(all, 1, (size_t)bytes, f) == (size_t)bytes;
	fclose(f);
	if (!ok) {
		free(all);
		return CUDA_ERROR_INVALID_IMAGE;
	}
	*out = all;
	*bytes_out = (size_t)bytes;
	return CUDA_SUCCESS;
}

FK_API cuModuleLoad(CUmodule *out, const char *path) {
	FK_TRY(fk_usable());
	char *image;
	size_t bytes;
	FK_TRY(fk_read_file(path, &image, &bytes));
	CUresult r = load(out, image);
	free(image);
	return r;
}

FK_API cuLibraryLoadFromFile(CUlibrary *out, const char *path, int *jit, void **jit_values,
	unsigned int jits, int *options, void **values, unsigned int count) {
	(void)jit, (void)jit_values, (void)jits, (void)options, (void)values, (void)count;
	FK_TRY(fk_usable());
	char *image;
	size_t bytes;
	FK_TRY(fk_read_file(path, &image, &bytes));
	CUresult r = fk_module_load((CUmodule *)out, image, NULL, false);
	free(image);
	return r;
}

FK_API cuModuleUnload(CUmodule m) {
	FK_TRY(fk_sound());
	if (!FK_IS(m, FK_MODULE))
		return CUDA_ERROR_INVALID_HANDLE;
	fk_enter();
	for (CUmodule *p = &fk.modules; *p; p = &(*p)->next)
		if (*p == m) {
			*p = m->next;
			break;
		}
	forget(m);
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

FK_API cuModuleGetLoadingMode(int *mode) {
	FK_TRY(fk_usable());
	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = fk.count && fk_lazy(0) ? 2 : 1; // lazy, eager
	return CUDA_SUCCESS;
}

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
