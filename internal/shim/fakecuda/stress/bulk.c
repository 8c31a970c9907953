// bulk holds device memory whose contents it knows, and times copies of all of it.
//
// usage: bulk MIB
// After "ready" it does what each line of its standard input says, and answers with JSON:
//   copy   copies all to pinned memory that it keeps, and back: {"seconds": both}
//   memcpy copies as much by memcpy within the host, there and back: {"seconds": both}
//   fresh  copies as much by memcpy, twice, each time into memory that nobody has used yet, which
//          it gives back: {"seconds": both}
//   check  compares all: {"wrong": words}
#include "../example/load.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>

static CUdeviceptr at;
static uint64_t *kept, *other, seed = 1;
static size_t bytes;

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t word(size_t i) { return (i + seed) * 0x9e3779b97f4a7c15u; }

static double copy(void) {
	double began = now();
	CHECK(CU(cuMemcpyDtoH_v2)(kept, at, bytes));
	CHECK(CU(cuMemcpyHtoD_v2)(at, kept, bytes));
	return now() - began;
}

static double within(void) {
	double began;
	if (!other) {
		other = malloc(bytes);
		if (!other)
			exit(1);
		memset(other, 1, bytes);
	}
	began = now();
	memcpy(other, kept, bytes);
	__asm__ volatile("" ::"r"(other) : "memory");
	memcpy(kept, other, bytes);
	__asm__ volatile("" ::"r"(kept) : "memory");
	return now() - began;
}

static double fresh(void) {
	double began = now();
	for (int i = 0; i < 2; i++) {
		void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			exit(1);
		memcpy(p, kept, bytes);
		__asm__ volatile("" ::"r"(p) : "memory");
		munmap(p, bytes);
	}
	return now() - began;
}

static size_t check(void) {
	size_t wrong = 0;
	memset(kept, 0, bytes);
	CHECK(CU(cuMemcpyDtoH_v2)(kept, at, bytes));
	for (size_t i = 0; i < bytes / 8; i++)
		wrong += kept[i] != word(i);
	return wrong;
}

int main(int argc, char **argv) {
	CUcontext context;
	char line[16];
	bytes = argc > 1 ? (size_t)strtoul(argv[1], NULL, 10) << 20 : 1 << 20;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuCtxCreate_v2)(&context, 0, 0));
	CHECK(CU(cuMemAlloc_v2)(&at, bytes));
	CHECK(CU(cuMemHostAlloc)((void **)&kept, bytes, 0));
	for (size_t i = 0; i < bytes / 8; i++)
		kept[i] = word(i);
	CHECK(CU(cuMemcpyHtoD_v2)(at, kept, bytes));
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		if (!strcmp(line, "copy\n"))
			printf("{\"seconds\": %.6f}\n", copy());
		else if (!strcmp(line, "memcpy\n"))
			printf("{\"seconds\": %.6f}\n", within());
		else if (!strcmp(line, "fresh\n"))
			printf("{\"seconds\": %.6f}\n", fresh());
		else
			printf("{\"wrong\": %zu}\n", check());
		fflush(stdout);
	}
	return 0;
}
