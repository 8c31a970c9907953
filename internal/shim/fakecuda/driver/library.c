// Libraries, which are modules that belong to no context: a kernel is its function in each, and
// memory for code and variables is taken in a context when something of it is first used there.
// CUDA's runtime loads the program's own images in this way.
#include "image.h"
#include "memory.h"

#include <string.h>
#include <sys/mman.h>

enum { BINARY_IS_PRESERVED = 1 }; // CUlibraryOption

FK_API cuLibraryLoadData(CUlibrary *out, const void *code, int *jit, void **jit_values,
	unsigned int jits, int *options, void **values, unsigned int count) {
	(void)jit, (void)jit_values, (void)jits, (void)values;
	FK_TRY(fk_usable());
	bool preserved = false;
	for (unsigned int i = 0; options && i < count; i++)
		preserved |= options[i] == BINARY_IS_PRESERVED;
	return fk_module_load((CUmodule *)out, code, NULL, preserved);
}

FK_API cuLibraryUnload(CUlibrary l) { return cuModuleUnload((CUmodule)l); }

// open gives the library with its image read. It takes the lock, and leaves it on error.
static CUresult open_library(CUlibrary l, CUmodule *m) {
	FK_TRY(fk_usable());
	*m = (CUmodule)l;
	if (!FK_IS(*m, FK_MODULE))
		return CUDA_ERROR_INVALID_HANDLE;
	fk_enter();
	CUresult r = fk_module_read(*m);
	return r ? fk_leave(r) : CUDA_SUCCESS;
}

FK_API cuLibraryGetKernel(CUkernel *out, CUlibrary l, const char *name) {
	CUmodule m;
	FK_TRY(open_library(l, &m));
	fk_leave(0);
	return cuModuleGetFunction(out, m, name);
}

FK_API cuLibraryGetKernelCount(unsigned int *count, CUlibrary l) {
	CUmodule m;
	FK_TRY(open_library(l, &m));
	fk_leave(0);
	return cuModuleGetFunctionCount(count, m);
}

FK_API cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int count, CUlibrary l) {
	CUmodule m;
	FK_TRY(open_library(l, &m));
	fk_leave(0);
	return cuModuleEnumerateFunctions(kernels, count, m);
}

FK_API cuLibraryGetModule(CUmodule *out, CUlibrary l) {
	CUmodule m;
	FK_TRY(open_library(l, &m));
	if (!out)
		return fk_leave(CUDA_ERROR_INVALID_VALUE);
	*out = m;
	return fk_leave(CUDA_SUCCESS);
}

static fk_variable *find(struct CUmod_st *m, const char *name, bool managed) {
	for (uint32_t i = 0; i < m->variable_count; i++)
		if (m->variables[i].managed == managed && !strcmp(m->variables[i].name, name))
			return &m->variables[i];
	return NULL;
}

// place_managed maps a managed variable, which belongs to no context: CUDA's runtime asks for it
// before there is one. It takes no device memory until it is used there. fk.lock is held.
static CUresult place_managed(fk_variable *v) {
	if (v->address)
		return CUDA_SUCCESS;
	void *p = mmap(NULL, v->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	fk_allocation a = {.address = (uintptr_t)p, .bytes = v->bytes, .origin = FK_MANAGED};
	if (!fk_insert(a)) {
		munmap(p, v->bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (v->content)
		memcpy(p, v->content, v->bytes);
	v->address = (uintptr_t)p;
	return CUDA_SUCCESS;
}

// global finds a variable in the context; fk.lock is held.
static CUresult global(
	CUdeviceptr *address, size_t *bytes, struct CUmod_st *m, CUcontext c, const char *name) {
	CUdeviceptr block;
	fk_variable *v = find(m, name, false), *managed = v ? NULL : find(m, name, true);
	if (managed) {
		FK_TRY(place_managed(managed));
		v = managed;
	} else if (v)
		FK_TRY(fk_module_place(m, c, &block));
	else
		return CUDA_ERROR_NOT_FOUND;
	if (address)
		*address = managed ? managed->address : block + v->offset;
	if (bytes)
		*bytes = v->bytes;
	return CUDA_SUCCESS;
}

FK_API cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule m, const char *name) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!FK_IS(m, FK_MODULE))
		return CUDA_ERROR_INVALID_HANDLE;
	fk_enter();
	CUresult r = fk_module_read(m);
	return fk_leave(r ? r : global(address, bytes, m, m->context ? m->context : fk_root(c), name));
}

FK_API cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary l, const char *name) {
	return cuModuleGetGlobal_v2(address, bytes, (CUmodule)l, name);
}

FK_API cuLibraryGetManaged(CUdeviceptr *address, size_t *bytes, CUlibrary l, const char *name) {
	CUmodule m;
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	FK_TRY(open_library(l, &m));
	fk_variable *v = find(m, name, true);
	CUresult r = fk_leave(v ? place_managed(v) : CUDA_ERROR_NOT_FOUND);
	if (!r && address)
		*address = v->address;
	if (!r && bytes)
		*bytes = v->bytes;
	return r;
}

// Functions that host code may call through a pointer of the device are not told apart.
FK_API cuLibraryGetUnifiedFunction(void **out, CUlibrary l, const char *symbol) {
	(void)out, (void)symbol;
	CUmodule m;
	FK_TRY(open_library(l, &m));
	return fk_leave(CUDA_ERROR_NOT_FOUND);
}

FK_API cuKernelGetFunction(CUfunction *out, CUkernel k) {
	FK_TRY(fk_usable());
	if (!out || !FK_IS(k, FK_FUNCTION))
		return CUDA_ERROR_INVALID_VALUE;
	FK_TRY(fk_load_function(k));
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

FK_API cuKernelGetAttribute(int *value, int attribute, CUkernel k, CUdevice d) {
	FK_TRY(fk_device_ok(d));
	return cuFuncGetAttribute(value, attribute, k);
}

FK_API cuKernelSetAttribute(int attribute, int value, CUkernel k, CUdevice d) {
	FK_TRY(fk_device_ok(d));
	return cuFuncSetAttribute(k, attribute, value);
}

FK_API cuKernelSetCacheConfig(CUkernel k, int config, CUdevice d) {
	FK_TRY(fk_device_ok(d));
	return cuFuncSetCacheConfig(k, config);
}

FK_API cuKernelGetLibrary(CUlibrary *out, CUkernel k) {
	return cuFuncGetModule((CUmodule *)out, k);
}

FK_API cuFuncGetParamInfo(CUfunction f, size_t index, size_t *offset, size_t *bytes) {
	FK_TRY(fk_usable());
	if (!offset || !FK_IS(f, FK_FUNCTION) || index >= f->params)
		return CUDA_ERROR_INVALID_VALUE;
	*offset = f->param[index].offset;
	if (bytes)
		*bytes = f->param[index].bytes;
	return CUDA_SUCCESS;
}

FK_API cuKernelGetParamInfo(CUkernel k, size_t index, size_t *offset, size_t *bytes) {
	return cuFuncGetParamInfo(k, index, offset, bytes);
}

FK_API cuFuncGetParamCount(CUfunction f, size_t *count) {
	FK_TRY(fk_usable());
	if (!count || !FK_IS(f, FK_FUNCTION))
		return CUDA_ERROR_INVALID_VALUE;
	*count = f->params;
	return CUDA_SUCCESS;
}

FK_API cuKernelGetParamCount(CUkernel k, size_t *count) { return cuFuncGetParamCount(k, count); }
