// inherit checks by value 8 MiB of its own, which can be moved (weir freeze), and 1 MiB that it has
// opened of another process, which ends with the first line of standard input.
//
// usage: inherit
// The program says "ready", goes on until its standard input ends, and prints as JSON how many
// words were compared, and how many were wrong.
#include "../example/load.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OWN = 8 << 20, GIVEN = 1 << 20, MINE = 41, THEIRS = 42 };

static CUdeviceptr filled(size_t bytes, uint32_t with) {
	CUdeviceptr p;
	CHECK(CU(cuMemAlloc_v2)(&p, bytes));
	CHECK(CU(cuMemsetD32_v2)(p, with, bytes / 4));
	CHECK(CU(cuCtxSynchronize)());
	return p;
}

static void begin(void) {
	CUcontext c;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuCtxCreate_v2)(&c, 0, 0));
}

// giver sends a handle of its memory, and waits to be killed.
static int giver(int out) {
	CUipcMemHandle h;
	begin();
	CHECK(CU(cuIpcGetMemHandle)(&h, filled(GIVEN, THEIRS)));
	if (write(out, &h, sizeof h) != sizeof h)
		return 1;
	pause();
	return 1;
}

static long compared, wrong;

static void compare(CUdeviceptr p, size_t bytes, uint32_t with) {
	static uint32_t host[OWN / 4];
	CHECK(CU(cuMemcpyDtoH_v2)(host, p, bytes));
	for (size_t i = 0; i < bytes / 4; i++, compared++)
		wrong += host[i] != with;
}

int main(void) {
	CUipcMemHandle h;
	CUdeviceptr given;
	char line[16];
	int pipes[2];
	if (pipe(pipes))
		return 2;
	pid_t pid = fork(); // before CUDA begins: the child is a process of its own
	if (!pid)
		return giver(pipes[1]);
	close(pipes[1]);
	if (read(pipes[0], &h, sizeof h) != sizeof h)
		return 2;
	begin();
	CUdeviceptr own = filled(OWN, MINE);
	CHECK(CU(cuIpcOpenMemHandle_v2)(&given, h, 0));
	printf("ready\n");
	fflush(stdout);
	if (!fgets(line, sizeof line, stdin))
		return 2;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	printf("alone\n");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin))
		;
	compare(own, OWN, MINE);
	compare(given, GIVEN, THEIRS);
	CHECK(CU(cuIpcCloseMemHandle)(given));
	printf("{\"compared\": %ld, \"wrong\": %ld}\n", compared, wrong);
	return wrong != 0;
}
