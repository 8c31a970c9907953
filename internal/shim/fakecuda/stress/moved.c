// moved checks by value, from several threads, memory that is moved to the host and back under it
// (weir freeze and weir thaw, or orders on the page): plain and pitched allocations, through
// kernels, graphs that were captured before, and copies of all sizes.
//
// usage: moved [THREADS [MIB [apart|steady]]]
// Each thread has a buffer of MIB, 3 if it is not given; with apart what works on the memory is of
// another context than that is, and with steady nothing is allocated after the beginning.
// The program says "ready" and goes on until its standard input ends.
// A line there, NUMBER FILE, has it put a file of its own under the number of an open one. The last
// line that it prints is JSON: rounds, words compared, and how many were wrong.
#include "../example/load.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { MANY = 64, ROW = 1000, ROWS = 3000 };

static CUcontext context, working; // of the memory, and of streams and kernels
static CUfunction add;
static uint32_t words;
static int steady;
static int over; // atomic
static long rounds, compared, wrong;

typedef struct {
	uint32_t seed, done; // what was added to each word
	CUdeviceptr p;
	CUstream s;
	CUgraphExec graph;
	unsigned long long buffer; // the driver's number of p
	uint32_t *host;
} worker;

static uint32_t first(const worker *w, uint32_t i) { return w->seed * 2654435761u + i * 40503u; }

static void compare(uint32_t got, uint32_t want) {
	__atomic_add_fetch(&compared, 1, __ATOMIC_RELAXED);
	if (got != want)
		__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
}

// known holds what the driver says of the far end of an allocation that may lie in pieces.
static void known(CUdeviceptr at, size_t bytes) {
	CUdeviceptr base = 0, start = 0;
	size_t size = 0;
	CUcontext c = NULL;
	unsigned long long first = 0, last = 1;
	CUpointer_attribute both[] = {
		CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_BUFFER_ID};
	void *data[] = {&start, &last};
	CHECK(CU(cuMemGetAddressRange_v2)(&base, &size, at + bytes / 2));
	compare(base == at && size == bytes, 1);
	CHECK(CU(cuPointerGetAttribute)(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at + bytes - 1));
	CHECK(CU(cuPointerGetAttribute)(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at + bytes - 1));
	CHECK(CU(cuPointerGetAttribute)(&c, CU_POINTER_ATTRIBUTE_CONTEXT, at + bytes - 1));
	CHECK(CU(cuPointerGetAttribute)(&first, CU_POINTER_ATTRIBUTE_BUFFER_ID, at));
	CHECK(CU(cuPointerGetAttributes)(2, both, data, at + bytes - 1));
	compare(base == at && size == bytes && c == context, 1);
	compare(start == at && first == last, 1);
}

static void launch(worker *w) {
	uint32_t one = 1;
	void *params[] = {&w->p, &one, &words};
	CHECK(CU(cuLaunchKernel)(add, 1, 1, 1, 32, 1, 1, 0, w->s, params, NULL));
}

static void begin(worker *w) {
	CUgraph g;
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuMemAlloc_v2)(&w->p, 4ul * words));
	CHECK(CU(cuPointerGetAttribute)(&w->buffer, CU_POINTER_ATTRIBUTE_BUFFER_ID, w->p));
	CHECK(CU(cuCtxSetCurrent)(working));
	CHECK(CU(cuStreamCreate)(&w->s, CU_STREAM_NON_BLOCKING));
	w->host = malloc(4ul * words);
	for (uint32_t i = 0; i < words; i++)
		w->host[i] = first(w, i);
	CHECK(CU(cuMemcpyHtoD_v2)(w->p, w->host, 4ul * words));
	CHECK(CU(cuStreamBeginCapture_v2)(w->s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	launch(w);
	CHECK(CU(cuStreamEndCapture)(w->s, &g));
	CHECK(CU(cuGraphInstantiateWithFlags)(&w->graph, g, 0));
	CHECK(CU(cuGraphDestroy)(g));
}

static void look_at_one(worker *w) {
	unsigned long long buffer;
	CHECK(CU(cuPointerGetAttribute)(&buffer, CU_POINTER_ATTRIBUTE_BUFFER_ID, w->p));
	compare(buffer == w->buffer, 1);
	uint32_t got, i = (w->done * 7919u + w->seed) % words;
	CHECK(CU(cuMemcpyDtoH_v2)(&got, w->p + 4ul * i, 4));
	compare(got, first(w, i) + w->done);
}

static void compare_all(const worker *w) {
	for (uint32_t i = 0; i < words; i++)
		compare(w->host[i], first(w, i) + w->done);
}

// A copy of all lies elsewhere for a while.
static void look_at_all(worker *w) {
	CUdeviceptr q;
	if (steady) {
		CHECK(CU(cuMemcpyDtoH_v2)(w->host, w->p, 4ul * words));
		compare_all(w);
		return;
	}
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuMemAlloc_v2)(&q, 4ul * words));
	CHECK(CU(cuCtxSetCurrent)(working));
	CHECK(CU(cuMemcpyDtoD_v2)(q, w->p, 4ul * words));
	known(q, 4ul * words);
	CHECK(CU(cuMemcpyDtoH_v2)(w->host, q, 4ul * words));
	CHECK(CU(cuMemFree_v2)(q));
	compare_all(w);
}

static void look_at_rows(worker *w) {
	CUdeviceptr p;
	size_t pitch;
	uint32_t got, y = w->done % ROWS;
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuMemAllocPitch_v2)(&p, &pitch, ROW, ROWS, 4));
	CHECK(CU(cuCtxSetCurrent)(working));
	CHECK(CU(cuMemsetD2D32Async)(p, pitch, w->done, ROW / 4, ROWS, w->s));
	CHECK(CU(cuStreamSynchronize)(w->s));
	CHECK(CU(cuMemcpyDtoH_v2)(&got, p + y * pitch + ROW - 4, 4));
	compare(got, w->done);
	CHECK(CU(cuMemFree_v2)(p));
}

static void *work(void *p) {
	worker *w = p;
	begin(w);
	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		if (w->done % 2)
			launch(w);
		else
			CHECK(CU(cuGraphLaunch)(w->graph, w->s));
		CHECK(CU(cuStreamSynchronize)(w->s));
		w->done++;
		look_at_one(w);
		if (w->done % 8 == 0)
			look_at_all(w);
		if (w->done % 8 == 4 && !steady)
			look_at_rows(w);
		__atomic_add_fetch(&rounds, 1, __ATOMIC_RELAXED);
	}
	look_at_all(w);
	CHECK(CU(cuGraphExecDestroy)(w->graph));
	CHECK(CU(cuMemFree_v2)(w->p));
	CHECK(CU(cuStreamDestroy_v2)(w->s));
	free(w->host);
	return NULL;
}

int main(int argc, char **argv) {
	int threads = argc > 1 ? atoi(argv[1]) : 1;
	double mib = argc > 2 ? atof(argv[2]) : 3;
	worker workers[MANY] = {0};
	pthread_t ids[MANY];
	CUmodule m;
	char line[512], name[512];
	int number;
	if (threads < 1 || threads > MANY || mib <= 0)
		return 2;
	words = (uint32_t)(mib * (1 << 18));
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuCtxCreate_v2)(&context, 0, 0));
	working = context;
	steady = argc > 3 && !strcmp(argv[3], "steady");
	if (argc > 3 && !steady)
		CHECK(CU(cuCtxCreate_v2)(&working, 0, 0));
	CHECK(CU(cuModuleLoadData)(&m, "kernel add us=20 does=add\n"));
	CHECK(CU(cuModuleGetFunction)(&add, m, "add"));
	for (int i = 0; i < threads; i++) {
		workers[i].seed = (uint32_t)i + 1;
		pthread_create(&ids[i], NULL, work, &workers[i]);
	}
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin))
		if (sscanf(line, "%d %511s", &number, name) == 2)
			dup2(open(name, O_RDWR), number);
	__atomic_store_n(&over, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	if (working != context)
		CHECK(CU(cuCtxDestroy_v2)(working));
	CHECK(CU(cuCtxDestroy_v2)(context));
	usleep(150000); // weir's thread, which looks every 100 ms, must find nothing to do there
	printf("{\"rounds\": %ld, \"compared\": %ld, \"wrong\": %ld}\n", rounds, compared, wrong);
	return wrong != 0;
}
