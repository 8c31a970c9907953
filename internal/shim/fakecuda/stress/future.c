// future uses a call that is newer than any table of today: it finds it by dlsym and by
// cuGetProcAddress, and asks for names that do not exist, and for names at CUDA versions that did
// not have them yet.
//
// usage: future [seconds to stay]      default: 0
#include "../example/load.h"

#include <unistd.h>

static void expect(const char *what, long got, long want) {
	if (got == want)
		return;
	fprintf(stderr, "%s: %ld, want %ld\n", what, got, want);
	exit(1);
}

typedef CUresult (*answering)(int *);

int main(int argc, char **argv) {
	int answer = 0;
	void *found;
	CUdriverProcAddressQueryResult status;
	CHECK(CU(cuInit)(0));
	CHECK(((answering)cu_symbol("cuWeirFakeFuture"))(&answer));
	expect("the future by dlsym", answer, 42);
	answer = 0;
	CHECK(CU(cuGetProcAddress_v2)("cuWeirFakeFuture", &found, 99000, 0, &status));
	expect("status of the future", status, CU_GET_PROC_ADDRESS_SUCCESS);
	CHECK(((answering)found)(&answer));
	expect("the future by cuGetProcAddress", answer, 42);
	CHECK(CU(cuGetProcAddress_v2)("cuWeirFakeFuture", &found, 12000, 0, &status));
	expect(
		"status of the future before its time", status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	expect("its address", found != NULL, 0);
	CHECK(CU(cuGetProcAddress_v2)("cuNoSuchCall", &found, 12000, 0, &status));
	expect("status of no call", status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	expect("cuGetProcAddress before CUDA 12",
		CU(cuGetProcAddress)("cuNoSuchCall", &found, 12000, 0), CUDA_ERROR_NOT_FOUND);
	puts("{\"answer\":42}");
	fflush(stdout);
	usleep(argc > 1 ? (unsigned)(atof(argv[1]) * 1e6) : 0);
	return 0;
}
