/*
 * Modules and libraries: their code and variables lie in device memory, and no call says how much.
 * What a load has taken is looked at afterwards (measure.c), and a load that took more than the job
 * may hold is undone. Code that is loaded only when a function is first launched, as is the default
 * from CUDA 12.2 on, the agent finds.
 *
 * A load waits while the program's memory is away, whose room is promised to others. It is not held
 * itself (hold.c), as code that is compiled for the device takes long: what it took is counted once
 * the memory is back, if that goes meanwhile.
 */
#include "weir.h"

#include <stdlib.h>

typedef CUresult (*unload_fn)(void *);

/* loaded ends a load. */
static CUresult loaded(CUresult r, void *handle, enum weir_call unload)
{
	unload_fn undo = (unload_fn)weir_real(unload);
	if (r != CUDA_SUCCESS || !weir_ready())
		return r;
	bool held = weir_hold(false), fits = weir_grown();
	weir_unhold(held);
	if (fits)
		return r;
	if (!undo)
		return r;
	undo(handle);
	return weir_deny();
}

#define LOAD(symbol, handle, unload, ...) \
	weir_fn_##symbol real = (weir_fn_##symbol)weir_real(call); \
	if (!real) \
		return weir_missing(); \
	weir_unhold(weir_hold(false)); \
	CUresult r = real(__VA_ARGS__); \
	return loaded(r, r == CUDA_SUCCESS && handle ? *handle : NULL, unload)

CUresult weir_on_module_load(enum weir_call call, CUmodule *module, const char *name)
{
	LOAD(cuModuleLoad, module, WEIR_cuModuleUnload, module, name);
}

CUresult weir_on_module_load_data(enum weir_call call, CUmodule *module, const void *image)
{
	LOAD(cuModuleLoadData, module, WEIR_cuModuleUnload, module, image);
}

CUresult weir_on_module_load_data_ex(enum weir_call call, CUmodule *module, const void *image,
	unsigned int n, CUjit_option *options, void **values)
{
	LOAD(cuModuleLoadDataEx, module, WEIR_cuModuleUnload, module, image, n, options, values);
}

CUresult weir_on_library_load_data(enum weir_call call, CUlibrary *library, const void *code,
	CUjit_option *jit, void **jit_values, unsigned int jits, CUlibraryOption *options,
	void **values, unsigned int n)
{
	LOAD(cuLibraryLoadData, library, WEIR_cuLibraryUnload, library, code, jit, jit_values, jits,
		options, values, n);
}

CUresult weir_on_library_load_file(enum weir_call call, CUlibrary *library, const char *name,
	CUjit_option *jit, void **jit_values, unsigned int jits, CUlibraryOption *options,
	void **values, unsigned int n)
{
	LOAD(cuLibraryLoadFromFile, library, WEIR_cuLibraryUnload, library, name, jit, jit_values, jits,
		options, values, n);
}

/* The handle of a kernel that is gone the driver may give to another: what is known of its times
 * goes before the driver unloads it. Before CUDA 12.4 nothing tells which kernels those are. */
typedef CUresult (*count_fn)(unsigned int *, void *);
typedef CUresult (*list_fn)(void **, unsigned int, void *);

static void kernels_go(void *handle, count_fn count, list_fn list)
{
	unsigned int n = 0;
	void **kernels = NULL;
	if (!weir_own_begin())
		return;
	bool told = count && list && count(&n, handle) == CUDA_SUCCESS &&
		(kernels = calloc(n + 1u, sizeof *kernels)) && list(kernels, n, handle) == CUDA_SUCCESS;
	weir_own_end();
	for (unsigned int i = 0; told && i < n; i++)
		weir_kernel_gone((uintptr_t)kernels[i]);
	free(kernels);
	if (!told)
		weir_functions_gone();
}

static CUresult unloaded(CUresult r)
{
	if (r == CUDA_SUCCESS && weir_ready())
		weir_shrunk();
	return r;
}

CUresult weir_on_module_unload(enum weir_call call, CUmodule module)
{
	weir_fn_cuModuleUnload real = (weir_fn_cuModuleUnload)weir_real(call);
	if (!real)
		return weir_missing();
	if (weir_ready())
		kernels_go(module, (count_fn)WEIR_DRIVER(cuModuleGetFunctionCount),
			(list_fn)WEIR_DRIVER(cuModuleEnumerateFunctions));
	return unloaded(real(module));
}

/* A library's kernels have a function in each context, and the library a module, with handles of
 * their own. Once the program has asked for such it is not known which kernels go with a library.
 */
static uint32_t given;

static CUresult gives(CUresult r)
{
	if (r == CUDA_SUCCESS)
		weir_set(&given, 1);
	return r;
}

CUresult weir_on_kernel_get_function(enum weir_call call, CUfunction *f, CUkernel kernel)
{
	weir_fn_cuKernelGetFunction real = (weir_fn_cuKernelGetFunction)weir_real(call);
	return real ? gives(real(f, kernel)) : weir_missing();
}

CUresult weir_on_library_get_module(enum weir_call call, CUmodule *module, CUlibrary library)
{
	weir_fn_cuLibraryGetModule real = (weir_fn_cuLibraryGetModule)weir_real(call);
	return real ? gives(real(module, library)) : weir_missing();
}

CUresult weir_on_library_unload(enum weir_call call, CUlibrary library)
{
	weir_fn_cuLibraryUnload real = (weir_fn_cuLibraryUnload)weir_real(call);
	if (!real)
		return weir_missing();
	if (weir_ready() && weir_get(&given))
		weir_functions_gone();
	else if (weir_ready())
		kernels_go(library, (count_fn)WEIR_DRIVER(cuLibraryGetKernelCount),
			(list_fn)WEIR_DRIVER(cuLibraryEnumerateKernels));
	return unloaded(real(library));
}

/* What was not looked at when it was loaded, or was put off, is when its address is asked for. */
static CUresult placed(CUresult r)
{
	if (r == CUDA_SUCCESS && weir_ready())
		weir_unmeasured();
	return r;
}

CUresult weir_on_module_get_global(
	enum weir_call call, CUdeviceptr *at, size_t *bytes, CUmodule module, const char *name)
{
	weir_fn_cuModuleGetGlobal_v2 real = (weir_fn_cuModuleGetGlobal_v2)weir_real(call);
	return real ? placed(real(at, bytes, module, name)) : weir_missing();
}

CUresult weir_on_library_get_global(
	enum weir_call call, CUdeviceptr *at, size_t *bytes, CUlibrary library, const char *name)
{
	weir_fn_cuLibraryGetGlobal real = (weir_fn_cuLibraryGetGlobal)weir_real(call);
	return real ? placed(real(at, bytes, library, name)) : weir_missing();
}

CUresult weir_on_func_load(enum weir_call call, CUfunction function)
{
	weir_fn_cuFuncLoad real = (weir_fn_cuFuncLoad)weir_real(call);
	return real ? placed(real(function)) : weir_missing();
}

/* A context that is made through a table of undocumented calls is looked at before something is
 * allocated in it. */
CUresult weir_on_get_export_table(enum weir_call call, const void **table, const CUuuid *id)
{
	weir_fn_cuGetExportTable real = (weir_fn_cuGetExportTable)weir_real(call);
	if (!real)
		return weir_missing();
	CUresult r = real(table, id);
	if (r == CUDA_SUCCESS)
		weir_tables_given();
	return r;
}
