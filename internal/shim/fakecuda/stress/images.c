// Device programs as NVIDIA's tools write them, and the tables that its runtime asks for: what the
// driver says of a PTX text, of a fat binary with such a text in it, and of contexts by the tables.
// It prints OK, or ends at the first line that does not hold.
#include "../example/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOLDS(condition) \
	do { \
		if (!(condition)) { \
			printf("line %d: %s\n", __LINE__, #condition); \
			exit(1); \
		} \
	} while (0)

static const char ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
	"// .entry not_this_one\n"
	".visible .global .align 8 .b8 table[1000];\n"
	".extern .global .align 4 .b32 elsewhere;\n"
	".const .align 4 .f32 scale = 0f3F800000;\n"
	".visible .entry add(\n\t.param .u64 .ptr .align 1 add_0,\n\t.param .b8 add_1,\n"
	"\t.param .align 4 .b8 add_2[12]\n)\n.maxntid 128, 2, 1\n{\n"
	"\t.shared .align 4 .b8 tile[256];\n\t{ ret; }\n\tret;\n}\n"
	".entry other() { ret; }\n";

static void parameter(CUfunction f, size_t i, size_t offset, size_t bytes) {
	size_t at = 99, n = 99;
	HOLDS(!CU(cuFuncGetParamInfo)(f, i, &at, &n) && at == offset && n == bytes);
}

static void text(void) {
	CUmodule m;
	CUfunction f;
	CUdeviceptr at;
	size_t bytes;
	int v;
	HOLDS(!CU(cuModuleLoadData)(&m, ptx));
	HOLDS(CU(cuModuleGetFunction)(&f, m, "not_this_one") == CUDA_ERROR_NOT_FOUND);
	HOLDS(!CU(cuModuleGetFunction)(&f, m, "other"));
	HOLDS(CU(cuFuncGetParamInfo)(f, 0, &bytes, NULL) == CUDA_ERROR_INVALID_VALUE);
	HOLDS(!CU(cuModuleGetFunction)(&f, m, "add"));
	parameter(f, 0, 0, 8);
	parameter(f, 1, 8, 1);
	parameter(f, 2, 12, 12);
	HOLDS(!CU(cuFuncGetAttribute)(&v, 0, f) && v == 256); // threads of a block
	HOLDS(!CU(cuFuncGetAttribute)(&v, 1, f) && v == 256); // shared memory
	HOLDS(CU(cuModuleGetGlobal_v2)(&at, &bytes, m, "elsewhere") == CUDA_ERROR_NOT_FOUND);
	HOLDS(!CU(cuModuleGetGlobal_v2)(&at, &bytes, m, "scale") && bytes == 4);
	HOLDS(!CU(cuModuleGetGlobal_v2)(&at, &bytes, m, "table") && bytes == 1000);
	HOLDS(CU(cuLaunchKernel)(f, 1, 1, 1, 512, 1, 1, 0, NULL, NULL, NULL) ==
		CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
	HOLDS(!CU(cuLaunchKernel)(f, 1, 1, 1, 256, 1, 1, 0, NULL, NULL, NULL));
	HOLDS(!CU(cuCtxSynchronize)() && !CU(cuModuleUnload)(m));
	HOLDS(CU(cuModuleLoadData)(&m, "nothing of the kind") == CUDA_ERROR_INVALID_IMAGE);
}

// fat is a fat binary of one PTX text for the architecture. The text is one run of literals, as LZ4
// has them, if it is to be compressed.
static void *fat(int architecture, bool compressed) {
	size_t n = sizeof ptx, room = n + 64;
	unsigned char *all = calloc(1, 80 + room), *to = all + 80;
	if (compressed) {
		size_t rest = n - 15;
		*to++ = 0xf0;
		for (; rest >= 255; rest -= 255)
			*to++ = 255;
		*to++ = (unsigned char)rest;
	}
	memcpy(to, ptx, n);
	to += n;
	*(uint32_t *)(void *)all = 0xba55ed50;
	*(uint16_t *)(void *)(all + 4) = 1, *(uint16_t *)(void *)(all + 6) = 16;
	*(uint64_t *)(void *)(all + 8) = 64 + room;
	*(uint16_t *)(void *)(all + 16) = 1; // PTX
	*(uint32_t *)(void *)(all + 20) = 64;
	*(uint64_t *)(void *)(all + 24) = room;
	*(uint32_t *)(void *)(all + 32) = compressed ? (uint32_t)(to - all - 80) : 0;
	*(uint32_t *)(void *)(all + 44) = (uint32_t)architecture;
	*(uint64_t *)(void *)(all + 56) = compressed ? 0x2011 : 0x11;
	*(uint64_t *)(void *)(all + 72) = compressed ? n : 0;
	return all;
}

static size_t free_bytes(void) {
	size_t left, all;
	HOLDS(!CU(cuMemGetInfo_v2)(&left, &all));
	return left;
}

static void library(bool compressed) {
	CUlibrary l;
	CUkernel k;
	CUdeviceptr at;
	size_t bytes, before = free_bytes();
	void *image = fat(80, compressed);
	HOLDS(!CU(cuLibraryLoadData)(&l, image, NULL, NULL, 0, NULL, NULL, 0));
	HOLDS(free_bytes() == before);
	HOLDS(!CU(cuLibraryGetKernel)(&k, l, "add"));
	HOLDS(!CU(cuLaunchKernel)((CUfunction)k, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
	HOLDS(free_bytes() < before);
	HOLDS(!CU(cuLibraryGetGlobal)(&at, &bytes, l, "table") && bytes == 1000);
	HOLDS(!CU(cuCtxSynchronize)() && !CU(cuLibraryUnload)(l));
	HOLDS(free_bytes() == before);
	free(image);
}

static void newer(void) {
	CUmodule m;
	void *image = fat(100, false);
	HOLDS(CU(cuModuleLoadData)(&m, image) == CUDA_ERROR_NO_BINARY_FOR_GPU);
	free(image);
}

// Two texts linked into one image, which outlives neither its inputs nor the link it belongs to.
static void linked(void) {
	static const char more[] = ".version 8.0\n.target sm_80\n.entry third() { ret; }\n";
	CUlinkState link;
	CUmodule m;
	CUfunction f;
	void *image;
	size_t bytes = 0;
	char *copy = strdup(ptx);
	HOLDS(!CU(cuLinkCreate_v2)(0, NULL, NULL, &link));
	HOLDS(CU(cuLinkComplete)(link, &image, &bytes) == CUDA_ERROR_INVALID_VALUE);
	HOLDS(!CU(cuLinkAddData_v2)(link, 1, copy, sizeof ptx, "one", 0, NULL, NULL));
	memset(copy, 0, sizeof ptx);
	free(copy);
	HOLDS(!CU(cuLinkAddData_v2)(link, 1, (void *)more, sizeof more, "two", 0, NULL, NULL));
	HOLDS(CU(cuLinkAddData_v2)(link, 4, (void *)more, sizeof more, "a", 0, NULL, NULL) ==
		CUDA_ERROR_NOT_SUPPORTED); // 4: an archive
	HOLDS(CU(cuLinkAddFile_v2)(link, 1, "/nowhere", 0, NULL, NULL) == CUDA_ERROR_FILE_NOT_FOUND);
	HOLDS(!CU(cuLinkComplete)(link, &image, &bytes) && bytes > sizeof ptx);
	HOLDS(!CU(cuModuleLoadData)(&m, image) && !CU(cuLinkDestroy)(link));
	HOLDS(!CU(cuModuleGetFunction)(&f, m, "add") && !CU(cuModuleGetFunction)(&f, m, "third"));
	HOLDS(!CU(cuModuleUnload)(m));
}

static int ended;
static void end(CUcontext c, void *key, void *value) {
	(void)c;
	ended += key == (void *)&ended && value == (void *)ptx;
}

static const void *const *table(const char *id) {
	CUuuid u;
	const void *t;
	memcpy(u.bytes, id, sizeof u.bytes);
	return CU(cuGetExportTable)(&t, &u) ? NULL : t;
}

// tables checks that naming a primary context does not make it, and that what is kept for it ends
// with it.
static void tables(void) {
	const void *const *cudart =
		table("\x6b\xd5\xfb\x6c\x5b\xf4\xe7\x4a\x89\x87\xd9\x39\x12\xfd\x9d\xf9");
	const void *const *storage =
		table("\xc6\x93\x33\x6e\x11\x21\xdf\x11\xa8\xc3\x68\xf3\x55\xd8\x95\x93");
	const void *const *layout =
		table("\x17\x34\xdc\x26\x80\x0d\x47\x45\x87\x26\xc0\xf1\xe7\xdd\x8b\xca");
	CUresult (*primary)(CUcontext *, CUdevice);
	CUresult (*unknown)(void **, size_t *);
	CUresult (*put)(CUcontext, void *, const void *, void (*)(CUcontext, void *, void *));
	CUresult (*get)(const void **, CUcontext, void *);
	HOLDS(!table("0123456789abcdef") && cudart && storage && layout);
	memcpy(&primary, &cudart[2], sizeof primary);
	memcpy(&unknown, &layout[4], sizeof unknown);
	HOLDS(unknown(NULL, NULL) == CUDA_ERROR_NOT_SUPPORTED);
	memcpy(&put, &storage[0], sizeof put);
	memcpy(&get, &storage[2], sizeof get);
	CUcontext named, made;
	CUdevice d;
	const void *value;
	HOLDS(!primary(&named, 0) && !CU(cuCtxSetCurrent)(named));
	HOLDS(CU(cuCtxGetDevice)(&d) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
	HOLDS(!CU(cuDevicePrimaryCtxRetain)(&made, 0) && made == named && !CU(cuCtxGetDevice)(&d));
	HOLDS(get(&value, NULL, &ended) == CUDA_ERROR_INVALID_HANDLE);
	HOLDS(!put(NULL, &ended, ptx, end) && !get(&value, named, &ended) && value == ptx);
	HOLDS(!CU(cuDevicePrimaryCtxRelease_v2)(0) && ended == 1);
}

int main(void) {
	CUcontext c;
	HOLDS(!CU(cuInit)(0));
	tables();
	HOLDS(!CU(cuDevicePrimaryCtxRetain)(&c, 0) && !CU(cuCtxSetCurrent)(c));
	text();
	library(false);
	library(true);
	newer();
	linked();
	puts("OK");
	return 0;
}
