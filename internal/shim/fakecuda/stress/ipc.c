// ipc shares two allocations, one from a pool, and an event between two processes, whose handles go
// through a pipe, and imports memory through a descriptor.
//
// usage: ipc [left]     left: looks at memory whose process has ended, or of which a descriptor is
// left alone, on a device of its own
//
// The last line is JSON; without left, waited_ms, how long the other process's stream waited for
// this one's event.
#include "../example/load.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
	CUipcMemHandle memory;
	CUipcEventHandle event;
	CUmemPoolPtrExportData pooled;
	int pool; // a descriptor of the first process
	pid_t pid;
} handles;

enum { SHARED = 1 << 20, QUESTION = 41, ANSWER = 42, POOLED = 43 }; // contents of what is shared

enum { SHARED_PAGES = 2 << 20 }; // of memory that is mapped

static CUcontext context;

static const CUmemAllocationProp exportable = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};

static CUfunction begin(void) {
	CUmodule module;
	CUfunction f;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuModuleLoadData)(&module, "kernel k us=200000\nkernel short us=100\n"));
	CHECK(CU(cuModuleGetFunction)(&f, module, "k"));
	return f;
}

static void hold(bool holds, const char *what) {
	if (holds)
		return;
	fprintf(stderr, "ipc: %s\n", what);
	exit(1);
}

static size_t used(void) {
	size_t free_bytes, total;
	CHECK(CU(cuMemGetInfo_v2)(&free_bytes, &total));
	return total - free_bytes;
}

// pooled opens what the first process has from a pool of its own.
static void pooled(handles *h, int pool) {
	CUmemoryPool p;
	CUdeviceptr at;
	uint32_t word = 0;
	size_t before = used();
	CHECK(CU(cuMemPoolImportFromShareableHandle)(
		&p, (void *)(intptr_t)pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	close(pool);
	CHECK(CU(cuMemPoolImportPointer)(&at, p, &h->pooled));
	hold(used() == before, "an allocation opened from a pool counts again");
	CHECK(CU(cuMemcpyDtoH_v2)(&word, at, 4));
	hold(word == POOLED, "pooled memory does not hold what the other process put there");
	hold(CU(cuMemAllocFromPoolAsync)(&at, 512, p, NULL) == CUDA_ERROR_INVALID_VALUE,
		"another process's pool gives memory");
	CHECK(CU(cuMemFreeAsync)(at, NULL));
	CHECK(CU(cuStreamSynchronize)(NULL));
	hold(used() == before, "an allocation opened from a pool stays after it was freed");
	memset(&h->pooled, 0x55, sizeof h->pooled);
	hold(CU(cuMemPoolImportPointer)(&at, p, &h->pooled) == CUDA_ERROR_INVALID_VALUE,
		"junk opens from a pool");
	CHECK(CU(cuMemPoolDestroy)(p));
}

// share puts an allocation of a new pool into the handles.
static void share(handles *h) {
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemoryPool pool;
	CUdeviceptr p;
	CHECK(CU(cuMemPoolCreate)(&pool, &properties));
	CHECK(CU(cuMemAllocFromPoolAsync)(&p, SHARED, pool, NULL));
	CHECK(CU(cuMemsetD32_v2)(p, POOLED, 1));
	CHECK(CU(cuStreamSynchronize)(NULL));
	CHECK(CU(cuMemPoolExportToShareableHandle)(
		&h->pool, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	CHECK(CU(cuMemPoolExportPointer)(&h->pooled, p));
	h->pid = getpid();
}

// other opens what the first process sends, and has a stream wait for its event.
static int other(int in) {
	handles h;
	CUdeviceptr p, none;
	CUevent theirs, from, to;
	CUstream s;
	float ms;
	uint32_t word = 0;
	char path[64];
	hold(read(in, &h, sizeof h) == sizeof h, "no handles");
	snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)h.pid, h.pool);
	int pool = open(path, O_RDONLY | O_CLOEXEC);
	hold(pool >= 0, "no pool");
	CUfunction k = begin();
	size_t before = used();
	CHECK(CU(cuIpcOpenMemHandle_v2)(&p, h.memory, 0));
	hold(used() == before, "an opened allocation counts again");
	CHECK(CU(cuIpcOpenEventHandle)(&theirs, h.event));
	CHECK(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
	CHECK(CU(cuEventCreate)(&from, 0));
	CHECK(CU(cuEventCreate)(&to, 0));
	CHECK(CU(cuEventRecord)(from, s));
	CHECK(CU(cuStreamWaitEvent)(s, theirs, 0));
	CHECK(CU(cuMemcpyDtoHAsync_v2)(&word, p + SHARED - 4, 4, s));
	CHECK(CU(cuMemsetD32Async)(p, ANSWER, SHARED / 4, s));
	CHECK(CU(cuEventRecord)(to, s));
	CHECK(CU(cuEventSynchronize)(to));
	CHECK(CU(cuEventQuery)(theirs));
	CHECK(CU(cuEventElapsedTime)(&ms, from, to));
	hold(word == QUESTION, "shared memory does not hold what the other process put there");
	printf("{\"waited_ms\":%.3f}\n", (double)ms);
	CHECK(CU(cuIpcCloseMemHandle)(p));
	hold(used() == before, "an opened allocation stays after it was closed");
	pooled(&h, pool);
	CHECK(CU(cuEventDestroy_v2)(theirs));
	CHECK(CU(cuEventDestroy_v2)(from));
	CHECK(CU(cuEventDestroy_v2)(to));
	memset(&h, 0x55, sizeof h);
	hold(CU(cuIpcOpenMemHandle_v2)(&none, h.memory, 0) == CUDA_ERROR_INVALID_VALUE, "junk opens");
	return k == NULL;
}

// export_import goes through a descriptor within the process.
static void export_import(void) {
	CUmemGenericAllocationHandle a, b;
	int fd = -1;
	size_t before = used();
	CHECK(CU(cuMemCreate)(&a, SHARED_PAGES, &exportable, 0));
	CHECK(CU(cuMemExportToShareableHandle)(&fd, a, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	CHECK(CU(cuMemImportFromShareableHandle)(
		&b, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(fd);
	CHECK(CU(cuMemRelease)(a));
	hold(used() == before + SHARED_PAGES, "the memory went with its first handle");
	CHECK(CU(cuMemRelease)(b));
	hold(used() == before, "the memory stayed after its last handle");
}

// giver sends an allocation once it is told to, and waits to be killed, for as long as who is to do
// that lives: the other end of in is closed then.
static int giver(int in, int out) {
	CUdeviceptr p;
	handles h = {.pid = getpid()};
	char word;
	if (read(in, &word, 1) != 1)
		return 1;
	begin();
	CHECK(CU(cuMemAlloc_v2)(&p, SHARED));
	CHECK(CU(cuMemsetD32_v2)(p, ANSWER, SHARED / 4));
	CHECK(CU(cuCtxSynchronize)());
	CHECK(CU(cuIpcGetMemHandle)(&h.memory, p));
	hold(write(out, &h, sizeof h) == sizeof h, "the giver's handle did not go out");
	while (read(in, &word, 1) > 0)
		;
	return 1;
}

static void wait_until_used(size_t bytes, const char *otherwise) {
	for (int i = 0; i < 1000 && used() != bytes; i++)
		usleep(1000);
	hold(used() == bytes, otherwise);
}

// descriptor leaves memory to an exported descriptor alone.
static void descriptor(void) {
	CUmemGenericAllocationHandle a;
	int fd = -1;
	size_t before = used();
	CHECK(CU(cuMemCreate)(&a, SHARED_PAGES, &exportable, 0));
	CHECK(CU(cuMemExportToShareableHandle)(&fd, a, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	CHECK(CU(cuMemRelease)(a));
	hold(used() == before + SHARED_PAGES, "the memory went while a descriptor of it was open");
	CHECK(CU(cuMemImportFromShareableHandle)(
		&a, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(fd);
	hold(used() == before + SHARED_PAGES, "the memory went with its descriptor, not its handle");
	CHECK(CU(cuMemExportToShareableHandle)(&fd, a, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	CHECK(CU(cuMemRelease)(a));
	close(fd);
	wait_until_used(before, "the memory stayed after its last descriptor");
}

// taken is what the device takes for so much: more, where it has granules.
static size_t taken(size_t bytes) {
	CUdeviceptr p;
	size_t before = used();
	CHECK(CU(cuMemAlloc_v2)(&p, bytes));
	size_t more = used() - before;
	CHECK(CU(cuMemFree_v2)(p));
	return more;
}

// heir opens the giver's allocation, and has it when that is gone. Without the giver alone is used,
// with its allocation shared more.
static void heir(pid_t pid, int in, size_t alone, size_t shared) {
	handles h;
	CUdeviceptr p, again, none;
	uint32_t word = 0;
	hold(read(in, &h, sizeof h) == sizeof h, "no handle of the giver");
	CHECK(CU(cuIpcOpenMemHandle_v2)(&p, h.memory, 0));
	CHECK(CU(cuIpcOpenMemHandle_v2)(&again, h.memory, 0));
	hold(!kill(pid, SIGKILL) && waitpid(pid, NULL, 0) == pid, "the giver stays");
	wait_until_used(alone + shared, "not what is open of an ended process is held, or more");
	CHECK(CU(cuMemcpyDtoH_v2)(&word, p, 4));
	hold(word == ANSWER, "memory of an ended process has other contents");
	CHECK(CU(cuIpcCloseMemHandle)(p));
	hold(used() == alone + shared, "memory that is open twice goes when it is closed once");
	CHECK(CU(cuIpcCloseMemHandle)(again));
	hold(used() == alone, "memory of an ended process stays when it is closed");
	hold(CU(cuIpcOpenMemHandle_v2)(&none, h.memory, 0) == CUDA_ERROR_INVALID_VALUE,
		"what is gone opens");
}

// left tells what is held of memory whose handles are gone, or whose process is.
static int left(void) {
	int words[2], gifts[2];
	hold(!pipe(words) && !pipe(gifts), "no pipe");
	pid_t pid = fork(); // before CUDA begins: the child is a process of its own
	if (!pid) {
		close(words[1]);
		return giver(words[0], gifts[1]);
	}
	close(gifts[1]);
	begin();
	descriptor(); // which counts what is used, before the giver uses any
	size_t shared = taken(SHARED), alone = used();
	hold(write(words[1], "", 1) == 1, "the giver is not told to begin");
	heir(pid, gifts[0], alone, shared);
	printf("{}\n");
	return 0;
}

int main(int argc, char **argv) {
	if (argc > 1 && !strcmp(argv[1], "left"))
		return left();
	int pipes[2], status;
	hold(!pipe(pipes), "no pipe");
	pid_t pid = fork(); // before CUDA begins: the child is a process of its own
	if (!pid) {
		close(pipes[1]); // so that its read ends with this process
		return other(pipes[0]);
	}
	CUfunction k = begin();
	CUdeviceptr p;
	CUevent e;
	handles h;
	export_import();
	CHECK(CU(cuMemAlloc_v2)(&p, SHARED));
	CHECK(CU(cuEventCreate)(&e, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	CHECK(CU(cuIpcGetMemHandle)(&h.memory, p));
	CHECK(CU(cuIpcGetEventHandle)(&h.event, e));
	share(&h);
	CHECK(CU(cuLaunchKernel)(k, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	CHECK(CU(cuMemsetD32Async)(p, QUESTION, SHARED / 4, NULL));
	CHECK(CU(cuEventRecord)(e, NULL));
	hold(write(pipes[1], &h, sizeof h) == sizeof h, "the handles did not go out");
	hold(waitpid(pid, &status, 0) == pid && !status, "the other process failed");
	uint32_t word;
	CHECK(CU(cuMemcpyDtoH_v2)(&word, p + SHARED - 4, 4));
	hold(word == ANSWER, "shared memory does not hold the other process's answer");
	CHECK(CU(cuEventDestroy_v2)(e));
	return 0;
}
