// Two processes that share memory and an event. The child is this program again.
#include "sample.h"

#include <string>
#include <sys/wait.h>
#include <unistd.h>

extern const char *self;

struct handles {
	cudaIpcMemHandle_t memory;
	cudaIpcEventHandle_t event;
};

static int child(int fd) {
	handles h;
	if (read(fd, &h, sizeof h) != sizeof h)
		return 1;
	unsigned char *p, back[4096];
	cudaEvent_t e;
	MUST(cudaIpcOpenMemHandle((void **)&p, h.memory, cudaIpcMemLazyEnablePeerAccess));
	MUST(cudaIpcOpenEventHandle(&e, h.event));
	MUST(cudaStreamWaitEvent(0, e, 0));
	MUST(cudaMemcpy(back, p, sizeof back, cudaMemcpyDeviceToHost));
	HOLDS(filled(back, 21, sizeof back));
	MUST(cudaMemset(p, 22, 4096));
	MUST(cudaDeviceSynchronize());
	MUST(cudaEventDestroy(e));
	MUST(cudaIpcCloseMemHandle(p));
	MUST(cudaDeviceReset());
	return 0;
}

int ipc(const char *argument) {
	if (argument)
		return child(std::atoi(argument));
	int ends[2];
	if (pipe(ends))
		return 1;
	pid_t pid = fork(); // before the first call: a forked process cannot go on with CUDA
	if (!pid) {
		close(ends[1]);
		std::string fd = std::to_string(ends[0]);
		execl(self, self, "ipc", fd.c_str(), nullptr);
		_exit(127);
	}
	close(ends[0]);
	handles h;
	unsigned char *p, back[4096];
	cudaEvent_t e;
	MUST(cudaMalloc(&p, 8 << 20));
	MUST(cudaEventCreateWithFlags(&e, cudaEventDisableTiming | cudaEventInterprocess));
	MUST(cudaIpcGetMemHandle(&h.memory, p));
	MUST(cudaIpcGetEventHandle(&h.event, e));
	MUST(cudaMemset(p, 21, 8 << 20));
	MUST(cudaEventRecord(e, 0));
	MUST(cudaDeviceSynchronize());
	if (write(ends[1], &h, sizeof h) != sizeof h)
		return 1;
	int status = -1;
	HOLDS(waitpid(pid, &status, 0) == pid);
	SHOW(status);
	MUST(cudaMemcpy(back, p, sizeof back, cudaMemcpyDeviceToHost));
	HOLDS(filled(back, 22, sizeof back));
	MUST(cudaEventDestroy(e));
	MUST(cudaFree(p));
	return 0;
}
