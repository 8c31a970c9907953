// reload launches short kernels, unloads them and loads long ones, which may get their handles, and
// tells how many of those it has had on the device at once.
//
// usage: reload [module|library]        default: module
// The last line is JSON: same, whether a handle came again; flying, long kernels on the device at
// most.
#include "../example/load.h"

#include <stdbool.h>
#include <string.h>

enum { SHORT_US = 20, SHORT = 64, LONG_US = 4000, LONG = 24, TRIES = 8 };

static const char image[] = "kernel busy us=arg0\n";
static const char *how = "module";

static CUmodule module;
static CUlibrary library;

static CUfunction load(void) {
	CUfunction f;
	if (!strcmp(how, "library")) {
		CHECK(CU(cuLibraryLoadData)(&library, image, NULL, NULL, 0, NULL, NULL, 0));
		CHECK(CU(cuLibraryGetKernel)((CUkernel *)&f, library, "busy"));
		return f;
	}
	CHECK(CU(cuModuleLoadData)(&module, image));
	CHECK(CU(cuModuleGetFunction)(&f, module, "busy"));
	return f;
}

static void unload(void) {
	if (!strcmp(how, "library"))
		CHECK(CU(cuLibraryUnload)(library));
	else
		CHECK(CU(cuModuleUnload)(module));
}

static void launch(CUfunction f, unsigned us) {
	void *params[] = {&us};
	CHECK(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
}

static int launch_long(CUfunction f) {
	CUevent ends[LONG];
	int over = 0, most = 0;
	for (int i = 0; i < LONG; i++) {
		CHECK(CU(cuEventCreate)(&ends[i], CU_EVENT_DISABLE_TIMING));
		launch(f, LONG_US);
		CHECK(CU(cuEventRecord)(ends[i], NULL));
		while (over < i && !CU(cuEventQuery)(ends[over]))
			over++;
		most = i + 1 - over > most ? i + 1 - over : most;
	}
	CHECK(CU(cuCtxSynchronize)());
	for (int i = 0; i < LONG; i++)
		CHECK(CU(cuEventDestroy_v2)(ends[i]));
	return most;
}

int main(int argc, char **argv) {
	how = argc > 1 ? argv[1] : how;
	CUcontext context;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuCtxCreate_v2)(&context, 0, 0));
	bool same = false;
	int most = 0;
	for (int i = 0; i < TRIES && !same; i++) {
		CUfunction was = load();
		for (int n = 0; n < SHORT; n++)
			launch(was, SHORT_US);
		CHECK(CU(cuCtxSynchronize)());
		unload();
		CUfunction is = load();
		same = is == was;
		most = same ? launch_long(is) : 0;
		unload();
	}
	printf("{\"same\":%s,\"flying\":%d}\n", same ? "true" : "false", most);
	return 0;
}
