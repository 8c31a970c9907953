/*
 * Modules and libraries: what is forgotten of their kernels when they go, and when what they take
 * is looked at.
 */
#include "../src/module.c"

#include "expect.h"

struct weir_process weir = {.state = WEIR_ATTACHED};
void *weir_reals[WEIR_CALLS];

/* ---- the driver */

static CUresult answer; /* by its next calls */
static bool lists;     /* it tells which kernels a module has */
static uint32_t unloads;

static CUresult driver_call(void) { return answer; }

static CUresult driver_load(void **handle)
{
	*handle = (void *)7;
	return answer;
}

static CUresult driver_unload(void *handle)
{
	(void)handle;
	unloads++;
	return answer;
}

static CUresult driver_count(unsigned int *n, void *handle)
{
	(void)handle;
	*n = 2;
	return CUDA_SUCCESS;
}

static CUresult driver_list(void **kernels, unsigned int n, void *handle)
{
	(void)handle;
	for (unsigned int i = 0; i < n; i++)
		kernels[i] = (void *)(uintptr_t)(100 + i);
	return CUDA_SUCCESS;
}

void *weir_resolve(enum weir_call call)
{
	switch (call) {
	case WEIR_cuModuleLoadData:
	case WEIR_cuLibraryLoadData:
		return (void *)driver_load;
	case WEIR_cuModuleUnload:
	case WEIR_cuLibraryUnload:
		return (void *)driver_unload;
	case WEIR_cuModuleGetFunctionCount:
	case WEIR_cuLibraryGetKernelCount:
		return lists ? (void *)driver_count : NULL;
	case WEIR_cuModuleEnumerateFunctions:
	case WEIR_cuLibraryEnumerateKernels:
		return lists ? (void *)driver_list : NULL;
	default:
		return (void *)driver_call;
	}
}

/* ---- the rest of the library */

static uint64_t kernels, all, unmeasured, shrunk, grown, denied, tables;
static bool fits = true;

void weir_kernel_gone(uintptr_t key) { kernels += key; }
void weir_functions_gone(void) { all++; }
void weir_unmeasured(void) { unmeasured++; }
void weir_shrunk(void) { shrunk++; }
void weir_tables_given(void) { tables++; }
bool weir_own_begin(void) { return true; }
void weir_own_end(void) {}
bool weir_hold_on(bool touches) { return touches; }
void weir_hold_off(void) {}
int weir_attach(void) { return WEIR_ATTACHED; }
CUresult weir_missing(void) { return CUDA_ERROR_NOT_FOUND; }

bool weir_grown(void)
{
	grown++;
	return fits;
}

CUresult weir_deny(void)
{
	denied++;
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUlibrary library = (CUlibrary)5;
static CUmodule module = (CUmodule)6;

static void loads(void)
{
	CUmodule m = NULL;
	expect("a load", weir_on_module_load_data(WEIR_cuModuleLoadData, &m, ""), 0);
	expect("is looked at", grown, 1);
	answer = CUDA_ERROR_INVALID_VALUE;
	weir_on_module_load_data(WEIR_cuModuleLoadData, &m, "");
	expect("one that fails is not", grown, 1);
	answer = CUDA_SUCCESS;
	fits = false;
	expect("one that has no room", weir_on_module_load_data(WEIR_cuModuleLoadData, &m, ""),
		CUDA_ERROR_OUT_OF_MEMORY);
	expect("is undone", unloads, 1);
	expect("and denied", denied, 1);
	fits = true;
}

/* What was put off is counted when something's place is asked for. */
static void places(void)
{
	CUdeviceptr at;
	size_t bytes;
	weir_on_module_get_global(WEIR_cuModuleGetGlobal_v2, &at, &bytes, module, "v");
	expect("a variable of a module", unmeasured, 1);
	weir_on_library_get_global(WEIR_cuLibraryGetGlobal, &at, &bytes, library, "v");
	expect("of a library", unmeasured, 2);
	weir_on_func_load(WEIR_cuFuncLoad, (CUfunction)1);
	expect("a function", unmeasured, 3);
	answer = CUDA_ERROR_NOT_FOUND;
	weir_on_module_get_global(WEIR_cuModuleGetGlobal_v2, &at, &bytes, module, "v");
	weir_on_library_get_global(WEIR_cuLibraryGetGlobal, &at, &bytes, library, "v");
	weir_on_func_load(WEIR_cuFuncLoad, (CUfunction)1);
	expect("what is not there", unmeasured, 3);
	const void *table;
	weir_on_get_export_table(WEIR_cuGetExportTable, &table, NULL);
	expect("a table that is not there", tables, 0);
	answer = CUDA_SUCCESS;
	weir_on_get_export_table(WEIR_cuGetExportTable, &table, NULL);
	expect("a table", tables, 1);
}

/* Kernels are forgotten by their handles where those are known. */
static void unloaded_ones(void)
{
	CUfunction f;
	CUmodule m;
	weir_on_module_unload(WEIR_cuModuleUnload, module);
	expect("nobody tells which", all, 1);
	expect("memory is looked at", shrunk, 1);
	lists = true;
	weir_on_module_unload(WEIR_cuModuleUnload, module);
	expect("a module's", kernels, 201);
	weir_on_library_unload(WEIR_cuLibraryUnload, library);
	expect("a library's", kernels, 402);
	expect("and no others", all, 1);
	answer = CUDA_ERROR_INVALID_VALUE;
	weir_on_kernel_get_function(WEIR_cuKernelGetFunction, &f, (CUkernel)100);
	weir_on_library_unload(WEIR_cuLibraryUnload, library);
	expect("a function that is not given", all, 1);
	answer = CUDA_SUCCESS;
	weir_on_kernel_get_function(WEIR_cuKernelGetFunction, &f, (CUkernel)100);
	weir_on_library_unload(WEIR_cuLibraryUnload, library);
	expect("one that is", all, 2);
	given = 0;
	weir_on_library_get_module(WEIR_cuLibraryGetModule, &m, library);
	weir_on_library_unload(WEIR_cuLibraryUnload, library);
	expect("a module of a library", all, 3);
}

int main(void)
{
	loads();
	places();
	unloaded_ones();
	return checked();
}
