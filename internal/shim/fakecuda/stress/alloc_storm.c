// alloc_storm allocates and frees at random over all families of allocating calls, checks that a
// refusal is out-of-memory and nothing else, and frees everything at the end.
//
// usage: alloc_storm [operations [most-MiB [seed [threads]]]]
//        defaults: 100000, 64, the time, 1
// The last line is JSON: operations, allocations, refused, used (bytes that cuMemGetInfo counted
// more at the end than at the start; other processes show in it).
#include "../example/load.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HELD = 64, FAMILIES = 12, GRANULE = 2 << 20 };

typedef struct {
	int family; // 0: nothing held
	union {
		CUdeviceptr address;
		CUarray array;
		CUmipmappedArray mipmap;
		CUexternalMemory external;
		CUgraphExec exec;
		void *host;
	};
	size_t bytes;
	CUmemGenericAllocationHandle handle;
	CUgraph graph;
} held;

typedef struct {
	unsigned long long operations, allocations, refused;
	unsigned seed;
	size_t most;
	CUcontext context;
	CUmemoryPool pool;
	CUstream stream;
} storm;

static size_t size_of(storm *s) {
	size_t n = (size_t)rand_r(&s->seed) % s->most + 1;
	return rand_r(&s->seed) % 4 ? n / 256 + 1 : n; // more small ones than large
}

// map makes memory and its address apart, as caching allocators with expandable segments do.
static CUresult map(held *h, size_t bytes, int location) {
	CUmemAllocationProp p = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {location, 0}};
	h->bytes = (bytes + GRANULE - 1) / GRANULE * GRANULE;
	CUresult r = CU(cuMemCreate)(&h->handle, h->bytes, &p, 0);
	if (r)
		return r;
	CUmemAccessDesc access = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, .flags = 3};
	CHECK(CU(cuMemAddressReserve)(&h->address, h->bytes, 0, 0, 0));
	CHECK(CU(cuMemMap)(h->address, h->bytes, 0, h->handle, 0));
	CHECK(CU(cuMemSetAccess)(h->address, h->bytes, &access, 1));
	CHECK(CU(cuMemRelease)(h->handle));
	return CUDA_SUCCESS;
}

static void unmap(held *h) {
	CHECK(CU(cuMemUnmap)(h->address, h->bytes));
	CHECK(CU(cuMemAddressFree)(h->address, h->bytes));
}

// launch_graph makes a graph that allocates and frees, and launches it; its memory stays until the
// exec goes.
static CUresult launch_graph(storm *s, held *h, size_t bytes) {
	CUgraphNode alloc, end;
	CUDA_MEM_ALLOC_NODE_PARAMS p = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
										.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
		.bytesize = bytes};
	CHECK(CU(cuGraphCreate)(&h->graph, 0));
	CHECK(CU(cuGraphAddMemAllocNode)(&alloc, h->graph, NULL, 0, &p));
	CHECK(CU(cuGraphAddMemFreeNode)(&end, h->graph, &alloc, 1, p.dptr));
	CHECK(CU(cuGraphInstantiateWithFlags)(&h->exec, h->graph, 0));
	CUresult r = CU(cuGraphLaunch)(h->exec, s->stream);
	if (r) {
		CHECK(CU(cuGraphExecDestroy)(h->exec));
		CHECK(CU(cuGraphDestroy)(h->graph));
	}
	return r;
}

static void end_graph(storm *s, held *h) {
	CHECK(CU(cuStreamSynchronize)(s->stream));
	CHECK(CU(cuGraphExecDestroy)(h->exec));
	CHECK(CU(cuGraphDestroy)(h->graph));
	CHECK(CU(cuDeviceGraphMemTrim)(0));
}

static CUresult allocate(storm *s, held *h, int family) {
	size_t n = size_of(s), pitch;
	CUDA_ARRAY_DESCRIPTOR flat = {.Width = n % 1024 + 1,
		.Height = n / 4096 % 4096 + 1,
		.Format = CU_AD_FORMAT_FLOAT,
		.NumChannels = 1};
	CUDA_ARRAY3D_DESCRIPTOR deep = {.Width = n % 512 + 1,
		.Height = n / 65536 % 512 + 1,
		.Depth = 4,
		.Format = CU_AD_FORMAT_HALF,
		.NumChannels = 2};
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC external = {
		.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .handle = {.fd = 0}, .size = n};
	switch (family) {
	case 1:
		return CU(cuMemAlloc_v2)(&h->address, n);
	case 2:
		return CU(cuMemAllocPitch_v2)(&h->address, &pitch, n % 4096 + 1, n / 4096 + 1, 4);
	case 3:
		return CU(cuMemAllocManaged)(&h->address, n, CU_MEM_ATTACH_GLOBAL);
	case 4:
		return CU(cuMemAllocAsync)(&h->address, n, s->stream);
	case 5:
		return CU(cuMemAllocFromPoolAsync)(&h->address, n, s->pool, s->stream);
	case 6:
		return map(h, n, CU_MEM_LOCATION_TYPE_DEVICE);
	case 7:
		return map(h, n, CU_MEM_LOCATION_TYPE_HOST);
	case 8:
		return CU(cuArrayCreate_v2)(&h->array, &flat);
	case 9:
		return CU(cuMipmappedArrayCreate)(&h->mipmap, &deep, 3);
	case 10:
		return CU(cuMemHostAlloc)(&h->host, n, 0);
	case 11:
		return CU(cuImportExternalMemory)(&h->external, &external);
	default:
		return launch_graph(s, h, n);
	}
}

static void release(storm *s, held *h) {
	switch (h->family) {
	case 1:
	case 2:
	case 3:
		CHECK(CU(cuMemFree_v2)(h->address));
		break;
	case 4:
	case 5:
		CHECK(CU(cuMemFreeAsync)(h->address, s->stream));
		break;
	case 6:
	case 7:
		unmap(h);
		break;
	case 8:
		CHECK(CU(cuArrayDestroy)(h->array));
		break;
	case 9:
		CHECK(CU(cuMipmappedArrayDestroy)(h->mipmap));
		break;
	case 10:
		CHECK(CU(cuMemFreeHost)(h->host));
		break;
	case 11:
		CHECK(CU(cuDestroyExternalMemory)(h->external));
		break;
	case 12:
		end_graph(s, h);
		break;
	}
	h->family = 0;
}

static void *run(void *arg) {
	storm *s = arg;
	held all[HELD] = {0};
	CHECK(CU(cuCtxSetCurrent)(s->context));
	CHECK(CU(cuStreamCreate)(&s->stream, CU_STREAM_NON_BLOCKING));
	for (unsigned long long n = s->operations; n > 0; n--) {
		held *h = &all[rand_r(&s->seed) % HELD];
		int family = rand_r(&s->seed) % FAMILIES + 1;
		if (h->family) {
			release(s, h);
			continue;
		}
		CUresult r = allocate(s, h, family);
		if (r && r != CUDA_ERROR_OUT_OF_MEMORY)
			CHECK(r);
		h->family = r ? 0 : family;
		s->allocations += !r, s->refused += r != 0;
		if (n % 1024 == 0)
			CHECK(CU(cuMemPoolTrimTo)(s->pool, 0));
	}
	for (int i = 0; i < HELD; i++)
		release(s, &all[i]);
	CHECK(CU(cuStreamSynchronize)(s->stream));
	CHECK(CU(cuStreamDestroy_v2)(s->stream));
	return NULL;
}

int main(int argc, char **argv) {
	enum { THREADS = 64 };
	static storm storms[THREADS];
	pthread_t threads[THREADS];
	unsigned long long operations = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;
	size_t most = (argc > 2 ? strtoul(argv[2], NULL, 10) : 64) << 20;
	unsigned seed = argc > 3 ? (unsigned)atoi(argv[3]) : (unsigned)time(NULL);
	int count = argc > 4 ? atoi(argv[4]) : 1;
	CUcontext context;
	CUmemoryPool pool;
	CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	size_t before, after, total;
	count = count < 1 ? 1 : count > THREADS ? THREADS : count;
	CHECK(CU(cuInit)(0));
	// Others may have all of it; some of them give some back now and then.
	CUresult made = CU(cuDevicePrimaryCtxRetain)(&context, 0);
	for (int tries = 0; made == CUDA_ERROR_OUT_OF_MEMORY && tries < 60000; tries++) {
		usleep(1000);
		made = CU(cuDevicePrimaryCtxRetain)(&context, 0);
	}
	CHECK(made);
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuMemGetInfo_v2)(&before, &total));
	CHECK(CU(cuMemPoolCreate)(&pool, &properties));
	for (int i = 0; i < count; i++) {
		storms[i] = (storm){.operations = operations / (unsigned)count,
			.seed = seed + (unsigned)i,
			.most = most,
			.context = context,
			.pool = pool};
		if (pthread_create(&threads[i], NULL, run, &storms[i]))
			return 1;
	}
	for (int i = 0; i < count; i++) {
		pthread_join(threads[i], NULL);
		storms[0].allocations += i ? storms[i].allocations : 0,
			storms[0].refused += i ? storms[i].refused : 0;
	}
	CHECK(CU(cuCtxSynchronize)());
	CHECK(CU(cuMemPoolDestroy)(pool));
	CHECK(CU(cuMemGetInfo_v2)(&after, &total));
	printf("{\"operations\":%llu,\"allocations\":%llu,\"refused\":%llu,\"used\":%lld}\n",
		operations, storms[0].allocations, storms[0].refused, (long long)(before - after));
	return 0;
}
