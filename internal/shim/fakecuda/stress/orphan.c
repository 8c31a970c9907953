// orphan holds memory of the device and forks a child that does nothing with it, but for holding
// what it inherited, and ends when standard input does.
//
// usage: orphan
#include "../example/load.h"

#include <unistd.h>

int main(void) {
	CUcontext c;
	CUdeviceptr p;
	char byte;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&c, 0));
	CHECK(CU(cuCtxPushCurrent_v2)(c));
	CHECK(CU(cuMemAlloc_v2)(&p, 1 << 20));
	if (!fork()) {
		close(1);
		while (read(0, &byte, 1) > 0)
			;
		_exit(0);
	}
	puts("ready");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	pause();
	return 0;
}
