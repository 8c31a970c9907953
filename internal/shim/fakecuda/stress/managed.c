// managed checks by value managed memory (cuMemAllocManaged) beside memory that is moved: what the
// host writes kernels see, and the other way round.
//
// usage: managed [MIB]
// It has MIB of each kind, 3 if that is not given, says "ready", and goes on until its standard
// input ends. The last line is JSON: rounds, words compared, and how many were wrong.
#include "../example/load.h"

#include <pthread.h>
#include <unistd.h>

static int over; // atomic

static void *read_to_end(void *unused) {
	char c;
	while (read(0, &c, 1) > 0)
		;
	__atomic_store_n(&over, 1, __ATOMIC_RELAXED);
	return unused;
}

int main(int argc, char **argv) {
	double mib = argc > 1 ? atof(argv[1]) : 3;
	uint32_t words = (uint32_t)(mib * (1 << 18)), one = 1;
	long rounds = 0, compared = 0, wrong = 0;
	CUcontext context;
	CUmodule m;
	CUfunction add;
	CUdeviceptr managed, moved;
	pthread_t reader;
	if (mib <= 0)
		return 2;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuCtxCreate_v2)(&context, 0, 0));
	CHECK(CU(cuModuleLoadData)(&m, "kernel add us=20 does=add\n"));
	CHECK(CU(cuModuleGetFunction)(&add, m, "add"));
	CHECK(CU(cuMemAllocManaged)(&managed, 4ul * words, 1));
	CHECK(CU(cuMemAlloc_v2)(&moved, 4ul * words));
	uint32_t *host = (uint32_t *)(uintptr_t)managed, *got = malloc(4ul * words);
	for (uint32_t i = 0; i < words; i++)
		host[i] = i;
	CHECK(CU(cuMemcpyHtoD_v2)(moved, host, 4ul * words));
	printf("ready\n");
	fflush(stdout);
	pthread_create(&reader, NULL, read_to_end, NULL);
	for (uint32_t done = 0; !__atomic_load_n(&over, __ATOMIC_RELAXED); rounds++) {
		void *to_managed[] = {&managed, &one, &words}, *to_moved[] = {&moved, &one, &words};
		CHECK(CU(cuLaunchKernel)(add, 1, 1, 1, 32, 1, 1, 0, NULL, to_managed, NULL));
		CHECK(CU(cuLaunchKernel)(add, 1, 1, 1, 32, 1, 1, 0, NULL, to_moved, NULL));
		CHECK(CU(cuCtxSynchronize)());
		done++;
		host[done % words]++;
		CHECK(CU(cuMemcpyDtoH_v2)(got, moved, 4ul * words));
		for (uint32_t i = 0; i < words; i++) {
			uint32_t more = i <= done % words ? (i > 0) + done / words : done / words;
			wrong += (got[i] != i + done) + (host[i] != i + done + more);
		}
		compared += 2l * words;
	}
	pthread_join(reader, NULL);
	CHECK(CU(cuMemFree_v2)(managed));
	CHECK(CU(cuMemFree_v2)(moved));
	CHECK(CU(cuCtxDestroy_v2)(context));
	printf("{\"rounds\": %ld, \"compared\": %ld, \"wrong\": %ld}\n", rounds, compared, wrong);
	return wrong != 0;
}
