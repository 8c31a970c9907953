// closes uses the device, closes the sockets and memory files that it did not open, as who closes
// all descriptors does, has sockets of its own under their numbers, and goes on using the device.
//
// usage: closes [launches]      default: 300, of which each takes a millisecond
// It ends with 1 if a call fails, or if anything but its own bytes is in its sockets.
#include "../example/load.h"

#include <dirent.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PAIRS = 16 };
static int pairs[PAIRS][2];

// found tells whether a descriptor is a socket or a memory file that is not the fake driver's.
static int found(int fd) {
	char path[32], name[256];
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(path, name, sizeof name - 1);
	name[n > 0 ? n : 0] = 0;
	return !strncmp(name, "socket:", 7) || (strstr(name, "memfd:weir") && !strstr(name, "fake"));
}

static int close_others(void) {
	int closed = 0;
	for (int fd = 3; fd < 1024; fd++)
		if (found(fd) && !close(fd))
			closed++;
	return closed;
}

static void launch(CUfunction f, int times) {
	unsigned us = 100;
	void *params[] = {&us};
	for (int i = 0; i < times; i++) {
		CHECK(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
		CHECK(CU(cuCtxSynchronize)());
		usleep(1000);
	}
}

// own tells whether a socket has the one byte that was sent to it, and no other.
static int own(int fd) {
	char bytes[512];
	return recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) == 1 && *bytes == 'x';
}

int main(int argc, char **argv) {
	int times = argc > 1 ? atoi(argv[1]) : 300, lost = 0;
	CUcontext context;
	CUmodule module;
	CUfunction f;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuModuleLoadData)(&module, "kernel busy us=arg0\n"));
	CHECK(CU(cuModuleGetFunction)(&f, module, "busy"));
	launch(f, 10);
	int closed = close_others();
	for (int i = 0; i < PAIRS; i++)
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i]) || send(pairs[i][0], "x", 1, 0) != 1 ||
			send(pairs[i][1], "x", 1, 0) != 1)
			return 1;
	launch(f, times);
	for (int i = 0; i < PAIRS; i++)
		lost += !own(pairs[i][0]) + !own(pairs[i][1]);
	printf("{\"closed\":%d,\"lost\":%d}\n", closed, lost);
	return lost > 0;
}
