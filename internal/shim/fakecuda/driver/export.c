// The tables that NVIDIA's own libraries ask cuGetExportTable for. NVIDIA documents none of them.
// What they hold has been found out and published by others, above all by ZLUDA (dark_api), and is
// checked here by what CUDA's runtimes 12.9 and 13.4 do with the answers (bench/userland).
//
// A table is an array of addresses; but for the context storage, its first word is its own size in
// bytes. What a runtime calls there does not pass by the driver's public symbols, so a library put
// before these does not see it:
//
//	cudart      slot 2 names the device's primary context; slots 1, 6 and 8 load a module
//	storage     values that the runtime keeps for each context, with a function for its end
//	creation    slot 1 makes a context, as cuCtxCreate
//	heap        slots 1 and 2 allocate and free
//
// CUDA's runtimes 12.9 and 13.4 load modules and retain contexts by public calls. A slot that
// nothing is known of answers CUDA_ERROR_NOT_SUPPORTED and is noted (fk_missing), as is a table
// that is not here.
#include "export.h"
#include "image.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void fk_missing(const char *kind, const char *name, int number) {
	const char *path = getenv("WEIR_FAKE_MISSING");
	int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
	if (fd < 0)
		return;
	dprintf(fd, "%s %s %d\n", kind, name, number);
	close(fd);
}

typedef void (*slot)(void);

#define SIZE(n) ((slot)(uintptr_t)((n) * sizeof(slot)))

// SLOTS(X) is X(0) to X(95), the most slots that a table here has. Each has a function of its own
// that says which one was called.
#define TEN(X, t) \
	X(t##0) X(t##1) X(t##2) X(t##3) X(t##4) X(t##5) X(t##6) X(t##7) X(t##8) X(t##9)
#define SLOTS(X) \
	TEN(X, ) TEN(X, 1) TEN(X, 2) TEN(X, 3) TEN(X, 4) TEN(X, 5) TEN(X, 6) TEN(X, 7) TEN(X, 8) \
	X(90) X(91) X(92) X(93) X(94)
#define UNKNOWN(n) \
	static CUresult unknown_##n(void) { \
		fk_missing("slot", "export", n); \
		return CUDA_ERROR_NOT_SUPPORTED; \
	}
SLOTS(UNKNOWN)
#define UNKNOWN_SLOT(n) (slot)unknown_##n,
static const slot unknown[] = {SLOTS(UNKNOWN_SLOT)};

static CUresult module_of(CUmodule *out, const void *wrapper) {
	return cuModuleLoadFatBinary(out, wrapper);
}

static CUresult module_with_options(
	CUmodule *out, const void *wrapper, void *a, void *b, uint32_t c) {
	(void)a, (void)b, (void)c;
	return cuModuleLoadFatBinary(out, wrapper);
}

static CUresult module_of_binary(
	const void *fatbin, CUmodule *out, void *a, void *b, uint32_t c) {
	(void)a, (void)b, (void)c;
	return cuModuleLoadFatBinary(out, fatbin);
}

// The handle of a primary context is the same whether it is active or not.
static CUresult primary(CUcontext *out, CUdevice device) {
	FK_TRY(fk_device_ok(device));
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	*out = fk_primary(device);
	return fk_leave(*out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

static void unused(size_t a) { (void)a; }
static CUresult load_compilers(void) { return CUDA_SUCCESS; }

// Tools that watch the runtime put their callbacks into these two; the sizes are in words.
static uint64_t hooks[1024], more_hooks[16];
static void get_hooks(void **at, size_t *words) { *at = hooks, *words = 1024; }
static void get_more_hooks(void **at, size_t *words) { *at = more_hooks, *words = 14; }

static CUresult current(CUcontext *out) { return cuCtxGetCurrent(out); }

static CUresult context_check(CUcontext c, uint32_t *result, const void **other) {
	(void)c, (void)other;
	if (result)
		*result = 0;
	return CUDA_SUCCESS;
}
static uint32_t no_check(void) { return 0; }

static slot cudart[13] = {SIZE(13), (slot)module_of, (slot)primary, [6] = (slot)module_with_options,
	(slot)unused, (slot)module_of_binary, [12] = (slot)load_compilers};
static slot callbacks[7] = {SIZE(7), [2] = (slot)get_hooks, [6] = (slot)get_more_hooks};
static slot tools[4] = {SIZE(4), [2] = (slot)current};
static slot storage[4] = {
	(slot)fk_storage_put, (slot)fk_storage_delete, (slot)fk_storage_get};
static slot creation[2] = {SIZE(2), (slot)cuCtxCreate_v2};
static slot heap[3] = {SIZE(3)};
static slot extended[26] = {SIZE(26)};
static slot integrity[3] = {SIZE(3), (slot)fk_integrity};
static slot checks[4] = {SIZE(4), [2] = (slot)context_check, (slot)no_check};
static slot identity[95] = {SIZE(95), [4] = (slot)cuCtxGetId};

// cuBLAS 13 calls slot 4 of this one without asking whether the driver has the table. It looks for
// a pointer and a length there, and does without where it is refused.
static slot layout[6] = {SIZE(6)};

static const struct {
	unsigned char id[16];
	slot *slots;
	size_t count;
} tables[] = {
	{{0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d,
		 0xf9}, cudart, 13},
	{{0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a,
		 0x66}, callbacks, 7},
	{{0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec,
		 0xdc}, tools, 4},
	{{0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95,
		 0x93}, storage, 4},
	{{0x0c, 0xa5, 0x0b, 0x8c, 0x10, 0x04, 0x92, 0x9a, 0x89, 0xa7, 0xd0, 0xdf, 0x10, 0xe7, 0x72,
		 0x86}, creation, 2},
	{{0x19, 0x5b, 0xcb, 0xf4, 0xd6, 0x7d, 0x02, 0x4a, 0xac, 0xc5, 0x1d, 0x29, 0xce, 0xa6, 0x31,
		 0xae}, heap, 3},
	{{0xb1, 0x05, 0x41, 0xe1, 0xf7, 0xc7, 0xc7, 0x4a, 0x9f, 0x64, 0xf2, 0x23, 0xbe, 0x99, 0xf1,
		 0xe2}, extended, 26},
	{{0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b, 0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66, 0xe1,
		 0xf2}, integrity, 3},
	{{0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43, 0x92, 0xf6, 0xbb, 0xd5, 0x00, 0x6d, 0xfa,
		 0x7e}, checks, 4},
	{{0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8,
		 0xf2}, identity, 95},
	{{0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45, 0x87, 0x26, 0xc0, 0xf1, 0xe7, 0xdd, 0x8b,
		 0xca}, layout, 6},
};

const void *fk_cudart_table(void) { return cudart; }
const void *fk_integrity_table(void) { return integrity; }

static void fill(void) {
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
		for (size_t n = 0; n < tables[i].count; n++)
			if (!tables[i].slots[n])
				tables[i].slots[n] = unknown[n];
}

FK_API cuGetExportTable(const void **table, const CUuuid *id) {
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	if (!table || !id)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_once(&once, fill);
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
		if (!memcmp(id->bytes, tables[i].id, sizeof tables[i].id)) {
			*table = tables[i].slots;
			return CUDA_SUCCESS;
		}
	char name[33];
	for (int i = 0; i < 16; i++)
		snprintf(name + 2 * i, 3, "%02x", (unsigned char)id->bytes[i]);
	fk_missing("table", name, 0);
	*table = NULL;
	return CUDA_ERROR_NOT_FOUND;
}
