/*
 * A program that changes its memory when it is told to, and touches it in no other way in between.
 *
 * For each line of input it does one thing: k launches a kernel that adds one to each word, g a
 * graph of that kernel, s sets all words, h copies to them from the host and d from other memory of
 * the device. It prints "done" and waits for none of it. v prints how many words are not what they
 * are to be.
 */
#include "../fakecuda/example/load.h"

enum { WORDS = 1 << 20 }; /* 4 MiB: such copies pass the gate */

static CUdeviceptr memory, other;
static CUstream stream;
static CUfunction add;
static CUgraphExec graph;
static uint32_t host[WORDS], word; /* all words of the memory are this */

static void fill(uint32_t with)
{
	for (uint32_t i = 0; i < WORDS; i++)
		host[i] = with;
}

static void launch(void)
{
	uint32_t one = 1, words = WORDS;
	void *params[] = {&memory, &one, &words};
	CHECK(CU(cuLaunchKernel)(add, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
}

static void begin(void)
{
	CUcontext context;
	CUmodule module;
	CUgraph g;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuModuleLoadData)(&module, "kernel add us=20 does=add\n"));
	CHECK(CU(cuModuleGetFunction)(&add, module, "add"));
	CHECK(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(CU(cuMemAlloc_v2)(&memory, sizeof host));
	CHECK(CU(cuMemAlloc_v2)(&other, sizeof host));
	CHECK(CU(cuMemcpyHtoD_v2)(memory, host, sizeof host));
	fill(7000);
	CHECK(CU(cuMemcpyHtoD_v2)(other, host, sizeof host));
	CHECK(CU(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	launch();
	CHECK(CU(cuStreamEndCapture)(stream, &g));
	CHECK(CU(cuGraphInstantiateWithFlags)(&graph, g, 0));
	CHECK(CU(cuCtxSynchronize)());
}

static uint32_t wrong(void)
{
	uint32_t n = 0;
	CHECK(CU(cuMemcpyDtoH_v2)(host, memory, sizeof host));
	for (uint32_t i = 0; i < WORDS; i++)
		n += host[i] != word;
	return n;
}

static void change(char how)
{
	switch (how) {
	case 'k':
		word++;
		launch();
		break;
	case 'g':
		word++;
		CHECK(CU(cuGraphLaunch)(graph, stream));
		break;
	case 's':
		word = 5000;
		CHECK(CU(cuMemsetD32Async)(memory, word, WORDS, stream));
		break;
	case 'h':
		word = 6000;
		fill(word);
		CHECK(CU(cuMemcpyHtoDAsync_v2)(memory, host, sizeof host, stream));
		break;
	case 'd':
		word = 7000;
		CHECK(CU(cuMemcpyDtoDAsync_v2)(memory, other, sizeof host, stream));
		break;
	}
}

int main(void)
{
	char line[8];
	begin();
	while (fgets(line, sizeof line, stdin)) {
		if (*line == 'v') {
			printf("%u\n", wrong());
		} else {
			change(*line);
			puts("done");
		}
		fflush(stdout);
	}
	return 0;
}
