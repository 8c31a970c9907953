// capture_beside captures a stream in the strictest mode while another thread keeps the device busy
// on a stream of its own. A look at an event by any thread whose capture mode is not relaxed would
// end the capture, and so would an event put on the streams that it depends on: so whoever watches
// the device must leave it alone.
//
// usage: capture_beside [captures [how]]      default: 5 seen
//   how: seen     the calls come from dlsym
//        hidden   as one that had them before: from the library's own table of symbols
//        joined   a second stream joins the capture, with work before it
//        default  likewise hidden, of a blocking stream, with work in the default stream before it
//        brief    hidden, and over at once, for as long as it takes to meet whoever watches
// The last line is JSON: captures.
#include "../example/load.h"

#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

static CUcontext context;
static CUfunction busy, tiny;
static atomic_bool stop;

static void launch_tiny(CUstream s) {
	CHECK(CU(cuLaunchKernel)(tiny, 1, 1, 1, 32, 1, 1, 0, s, NULL, NULL));
}

static void launch(CUstream s, unsigned us) {
	void *params[] = {&us};
	CHECK(CU(cuLaunchKernel)(busy, 1, 1, 1, 32, 1, 1, 0, s, params, NULL));
}

static void *flood(void *arg) {
	CUstream s;
	(void)arg;
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
	while (!atomic_load(&stop))
		launch(s, 300);
	return NULL;
}

static const void *entry(const struct link_map *map, ElfW(Sxword) tag) {
	for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++)
		if (d->d_tag == tag)
			return (const void *)d->d_un.d_ptr;
	return NULL;
}

// hidden finds a call of the driver's without asking the loader for it. The names follow the
// symbols.
static void *hidden(const char *name) {
	struct link_map *map = NULL;
	if (dlinfo(dlopen("libcuda.so.1", RTLD_NOW), RTLD_DI_LINKMAP, &map) || !map)
		exit(2);
	const ElfW(Sym) *symbol = entry(map, DT_SYMTAB);
	const char *names = entry(map, DT_STRTAB);
	for (; (const char *)symbol < names; symbol++)
		if (symbol->st_value && !strcmp(names + symbol->st_name, name))
			return (char *)map->l_addr + symbol->st_value;
	exit(2);
}

static void pause_ms(long ms) {
	nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

int main(int argc, char **argv) {
	int captures = argc > 1 ? atoi(argv[1]) : 5;
	const char *how = argc > 2 ? argv[2] : "seen";
	bool joined = !strcmp(how, "joined"), brief = !strcmp(how, "brief"),
		 blocking = !strcmp(how, "default"), seen = joined || !strcmp(how, "seen");
	CUmodule module;
	CUstream s, t;
	CUevent fork, join;
	pthread_t thread;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuModuleLoadData)(&module, "kernel busy us=arg0\nkernel tiny us=5\n"));
	CHECK(CU(cuModuleGetFunction)(&busy, module, "busy"));
	CHECK(CU(cuModuleGetFunction)(&tiny, module, "tiny"));
	CHECK(CU(cuStreamCreate)(&s, blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
	CHECK(CU(cuStreamCreate)(&t, CU_STREAM_NON_BLOCKING));
	CHECK(CU(cuEventCreate)(&fork, CU_EVENT_DISABLE_TIMING));
	CHECK(CU(cuEventCreate)(&join, CU_EVENT_DISABLE_TIMING));
	__typeof__(&cuStreamBeginCapture_v2) begin =
		seen ? CU(cuStreamBeginCapture_v2) : hidden("cuStreamBeginCapture_v2");
	__typeof__(&cuStreamEndCapture) end =
		seen ? CU(cuStreamEndCapture) : hidden("cuStreamEndCapture");
	if (pthread_create(&thread, NULL, flood, NULL))
		return 1;
	if (brief)
		captures *= 1000;
	for (int i = 0; i < captures; i++) {
		CUgraph graph;
		CUgraphExec exec;
		size_t nodes = 0;
		for (int n = 0; n < 8 && !brief; n++)
			launch_tiny(joined ? t : blocking ? NULL : s);
		CHECK(begin(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
		if (!brief)
			launch(s, 100);
		if (joined) {
			CHECK(CU(cuEventRecord)(fork, s));
			CHECK(CU(cuStreamWaitEvent)(t, fork, 0));
		}
		if (!brief)
			pause_ms(30);
		launch(joined ? t : s, 100);
		if (joined) {
			CHECK(CU(cuEventRecord)(join, t));
			CHECK(CU(cuStreamWaitEvent)(s, join, 0));
		}
		CHECK(end(s, &graph));
		CHECK(CU(cuGraphGetNodes)(graph, NULL, &nodes));
		if (nodes != (brief ? 1u : 2u)) {
			fprintf(stderr, "%zu nodes in a graph of %d kernels\n", nodes, brief ? 1 : 2);
			return 1;
		}
		if (!brief) {
			CHECK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
			CHECK(CU(cuGraphLaunch)(exec, s));
			CHECK(CU(cuStreamSynchronize)(s));
			CHECK(CU(cuGraphExecDestroy)(exec));
		}
		CHECK(CU(cuGraphDestroy)(graph));
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	CHECK(CU(cuEventDestroy_v2)(fork));
	CHECK(CU(cuEventDestroy_v2)(join));
	printf("{\"captures\":%d}\n", captures);
	return 0;
}
