// The way to the fake MPS control daemon.
#include "mps.h"

#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void fk_mps_folder(char *path, size_t size) {
	const char *dir = getenv("CUDA_MPS_PIPE_DIRECTORY");
	char own[4096];
	if (dir && *dir) {
		snprintf(path, size, "%s", dir);
		return;
	}
	fk_folder(own, sizeof own);
	snprintf(path, size, "%s/mps", own);
}

bool fk_mps_socket(struct sockaddr_un *at) {
	char folder[4096];
	fk_mps_folder(folder, sizeof folder);
	*at = (struct sockaddr_un){.sun_family = AF_UNIX};
	return snprintf(at->sun_path, sizeof at->sun_path, "%s/%s", folder, FK_MPS_SOCKET) <
		(int)sizeof at->sun_path;
}

int fk_mps_dial(void) {
	struct sockaddr_un at;
	if (!fk_mps_socket(&at))
		return -1;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd >= 0 && !connect(fd, (struct sockaddr *)&at, sizeof at))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

bool fk_mps_ask(const char *request, char answer[FK_MPS_PACKET]) {
	int fd = fk_mps_dial();
	if (fd < 0)
		return false;
	ssize_t n = -1;
	if (send(fd, request, strlen(request), MSG_NOSIGNAL) == (ssize_t)strlen(request))
		n = recv(fd, answer, FK_MPS_PACKET - 1, 0);
	close(fd);
	if (n < 0)
		return false;
	answer[n] = 0;
	return true;
}
