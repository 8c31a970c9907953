// grow makes the driver take memory of which no call says how much, and then stays until its input
// ends.
//
// usage: grow stack BYTES      a limit on each thread's stack
//        grow load COUNT       functions, loaded one by one
//        grow launch COUNT     functions, loaded by their first launches
//        grow context COUNT    contexts
//        grow green COUNT      green contexts, the first of which makes the primary one
//        grow table COUNT      contexts, made through a table of undocumented calls
//        grow module BYTES     a module with a variable of that size
//        grow create DEVICE    memory of cuMemCreate on a device, and a pool there
//        grow orphan BYTES     memory, whose process is killed while a child of it lives on
//        grow pools COUNT      memory of so many pools at once, and of the one that is given
// then, for each line of input, an allocation of so many MiB: with a number alone by cuMemAlloc,
// after a c by cuMemCreate, after a p from the pool that is given, and after a u of a module's
// variable, which is unloaded at once; after an x another context is made, and after an s the limit
// on stacks is set to so many KiB.
// After each it prints JSON: the result, and what is free by cuMemGetInfo.
#include "../example/load.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static void report(CUresult result) {
	size_t free, total;
	CHECK(CU(cuMemGetInfo_v2)(&free, &total));
	printf("{\"result\":%d,\"free\":%zu}\n", result, free);
	fflush(stdout);
}

// load loads functions, or launches them once the library has looked at what loading took.
static CUresult load(unsigned count, int launch) {
	CUfunction *f = calloc(count, sizeof *f);
	size_t free, total;
	for (unsigned i = 0; i < count; i++) {
		CUmodule module;
		CUresult r = CU(cuModuleLoadData)(&module, "kernel k us=10\n");
		if (r)
			return r;
		CHECK(CU(cuModuleGetFunction)(&f[i], module, "k"));
		if (!launch && (r = CU(cuFuncLoad)(f[i])))
			return r;
	}
	CHECK(CU(cuMemGetInfo_v2)(&free, &total));
	for (unsigned i = 0; i < count && launch; i++) {
		CUresult r = CU(cuLaunchKernel)(f[i], 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
		if (r)
			return r;
	}
	return CU(cuCtxSynchronize)();
}

static CUresult green(unsigned count) {
	enum { CU_DEV_RESOURCE_TYPE_SM = 1 };
	CUdevResource all;
	CUdevResourceDesc parts;
	CUgreenCtx g;
	CUcontext c;
	CUresult r = CU(cuDeviceGetDevResource)(0, &all, CU_DEV_RESOURCE_TYPE_SM);
	if (!r)
		r = CU(cuDevResourceGenerateDesc)(&parts, &all, 1);
	for (unsigned i = 0; i < count && !r; i++)
		r = CU(cuGreenCtxCreate)(&g, parts, 0, CU_GREEN_CTX_DEFAULT_STREAM);
	if (!r)
		r = CU(cuCtxFromGreenCtx)(&c, g);
	return r ? r : CU(cuCtxSetCurrent)(c);
}

static CUresult contexts(unsigned count) {
	static const CUuuid id = {"\x0c\xa5\x0b\x8c\x10\x04\x92\x9a\x89\xa7\xd0\xdf\x10\xe7\x72\x86"};
	CUresult (*make)(CUcontext *, unsigned int, CUdevice);
	const void *table;
	CUcontext c;
	CUresult r = CU(cuGetExportTable)(&table, &id);
	if (r)
		return r;
	memcpy(&make, (const void *const *)table + 1, sizeof make);
	for (unsigned i = 0; i < count && !r; i++)
		r = make(&c, 0, 0);
	return r;
}

static CUmodule loaded;

static CUresult module(unsigned bytes) {
	char ptx[256];
	snprintf(ptx, sizeof ptx,
		".version 8.0\n.target sm_80\n.address_size 64\n.visible .global .align 8 .b8 big[%u];\n"
		".entry k() { ret; }\n",
		bytes);
	return CU(cuModuleLoadData)(&loaded, ptx);
}

// create gives the first error of the two calls, and no other if they differ.
static CUresult create(int device) {
	CUmemAllocationProp p = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
	CUmemPoolProps q = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = p.location};
	CUmemGenericAllocationHandle memory;
	CUmemoryPool pool;
	CUresult r = CU(cuMemCreate)(&memory, 2 << 20, &p, 0), s = CU(cuMemPoolCreate)(&pool, &q);
	return r == s ? r : CUDA_ERROR_UNKNOWN;
}

// pools takes a byte from each of so many pools, gives all back and destroys them. The given pool
// cannot be destroyed.
static CUresult pools(unsigned count) {
	CUmemPoolProps q = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemoryPool *all = calloc(count, sizeof *all), given;
	CUdeviceptr *at = calloc(count, sizeof *at), kept;
	for (unsigned i = 0; i < count; i++) {
		CHECK(CU(cuMemPoolCreate)(&all[i], &q));
		CHECK(CU(cuMemAllocFromPoolAsync)(&at[i], 1, all[i], NULL));
	}
	report(CUDA_SUCCESS);
	for (unsigned i = 0; i < count; i++) {
		CHECK(CU(cuMemFreeAsync)(at[i], NULL));
		CHECK(CU(cuMemPoolDestroy)(all[i]));
	}
	report(CUDA_SUCCESS);
	CHECK(CU(cuDeviceGetMemPool)(&given, 0));
	CHECK(CU(cuMemAllocAsync)(&kept, 1, NULL));
	return CU(cuMemPoolDestroy)(given) == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS
																   : CUDA_ERROR_UNKNOWN;
}

static CUresult more(const char *line) {
	CUmemAllocationProp q = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemGenericAllocationHandle memory;
	CUcontext other;
	CUdeviceptr at;
	size_t bytes = (size_t)strtoul(line + strspn(line, "cpuxs"), NULL, 10) << 20;
	CUresult r;
	switch (*line) {
	case 'c':
		return CU(cuMemCreate)(&memory, bytes, &q, 0);
	case 'p':
		return CU(cuMemAllocAsync)(&at, bytes, NULL);
	case 'u':
		r = module((unsigned)bytes);
		return r ? r : CU(cuModuleUnload)(loaded);
	case 'x':
		return CU(cuCtxCreate_v2)(&other, 0, 0);
	case 's':
		return CU(cuCtxSetLimit)(CU_LIMIT_STACK_SIZE, bytes >> 10);
	}
	return CU(cuMemAlloc_v2)(&at, bytes);
}

// orphan leaves a child that holds what it has of its parent until its input ends.
static void orphan(unsigned bytes) {
	CUdeviceptr at;
	char line[32];
	CHECK(CU(cuMemAlloc_v2)(&at, bytes));
	if (fork())
		raise(SIGKILL);
	while (fgets(line, sizeof line, stdin))
		;
	exit(0);
}

int main(int argc, char **argv) {
	const char *how = argc > 2 ? argv[1] : "context";
	unsigned count = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1;
	CUcontext context;
	CUresult r = CUDA_SUCCESS;
	char line[32];
	CHECK(CU(cuInit)(0));
	if (!strcmp(how, "green")) {
		r = green(count);
	} else {
		CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
		CHECK(CU(cuCtxSetCurrent)(context));
	}
	if (!strcmp(how, "stack"))
		r = CU(cuCtxSetLimit)(CU_LIMIT_STACK_SIZE, count);
	else if (!strcmp(how, "create"))
		r = create((int)count);
	else if (!strcmp(how, "table"))
		r = contexts(count);
	else if (!strcmp(how, "module"))
		r = module(count);
	else if (!strcmp(how, "pools"))
		r = pools(count);
	else if (!strcmp(how, "orphan"))
		orphan(count);
	else if (!strcmp(how, "context"))
		for (unsigned i = 1; i < count && !r; i++)
			r = CU(cuCtxCreate_v2)(&context, 0, 0);
	else if (!strcmp(how, "load") || !strcmp(how, "launch"))
		r = load(count, !strcmp(how, "launch"));
	report(r);
	while (fgets(line, sizeof line, stdin))
		report(more(line));
	return 0;
}
