// nvidia-cuda-mps-control stands for NVIDIA's program of that name: the control daemon of MPS, and
// the way to command it. It is its own server, from the first client on. Commands are those of the
// guide to the Multi-Process Service that concern servers and their active thread percentage.
//
// usage: nvidia-cuda-mps-control -d          start the daemon in the background
//        nvidia-cuda-mps-control -f          the same in the foreground; a line when it serves
//        nvidia-cuda-mps-control < COMMANDS  say commands to it, one a line, and print its answers
#include "../model/mps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static double by_default = 100, percent; // percentages of the next server and of the one there is
static int server;                       // its pid, 0 before there is one

static void start_server(void) {
	if (server)
		return;
	server = getpid();
	percent = by_default;
}

// set changes a percentage if it is one.
static void set(double *to, double value, char *answer) {
	if (value > 0 && value <= 100)
		*to = value;
	else
		strcpy(answer, "Invalid percentage");
}

// carry_out writes the answer to a command. False: the daemon is to end.
static bool carry_out(const char *command, char answer[FK_MPS_PACKET]) {
	double value;
	int pid;
	*answer = 0;
	if (!strcmp(command, "quit"))
		return false;
	if (!strcmp(command, "client")) {
		start_server();
		snprintf(answer, FK_MPS_PACKET, "%d %f", server, percent);
	} else if (!strncmp(command, "start_server", 12)) {
		start_server();
	} else if (!strcmp(command, "get_server_list")) {
		if (server)
			snprintf(answer, FK_MPS_PACKET, "%d", server);
	} else if (!strcmp(command, "get_default_active_thread_percentage")) {
		snprintf(answer, FK_MPS_PACKET, "%.1f", by_default);
	} else if (sscanf(command, "set_default_active_thread_percentage %lf", &value) == 1) {
		set(&by_default, value, answer);
	} else if (sscanf(command, "get_active_thread_percentage %d", &pid) == 1 && pid == server) {
		snprintf(answer, FK_MPS_PACKET, "%.1f", percent);
	} else if (sscanf(command, "set_active_thread_percentage %d %lf", &pid, &value) == 2 &&
		pid == server) {
		set(&percent, value, answer);
	} else {
		snprintf(answer, FK_MPS_PACKET, "Unknown command, or no such server");
	}
	return true;
}

// serve answers one packet of each peer. False: the daemon is to end.
static bool serve(int listener) {
	char command[FK_MPS_PACKET], answer[FK_MPS_PACKET];
	int fd = accept(listener, NULL, NULL);
	if (fd < 0)
		return true;
	struct timeval patience = {.tv_sec = 1};
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	ssize_t n = recv(fd, command, sizeof command - 1, 0);
	bool more = true;
	if (n > 0) {
		command[n] = 0;
		more = carry_out(command, answer);
		send(fd, answer, strlen(answer), MSG_NOSIGNAL);
	}
	close(fd);
	return more;
}

static int daemon_main(bool background) {
	struct sockaddr_un at;
	char folder[4096], pid_file[4160];
	if (!fk_mps_socket(&at)) {
		fprintf(stderr, "the name of the pipe directory is too long\n");
		return 1;
	}
	fk_mps_folder(folder, sizeof folder);
	mkdir(folder, 0700);
	snprintf(pid_file, sizeof pid_file, "%s/nvidia-cuda-mps-control.pid", folder);
	if (fk_mps_dial() >= 0) {
		fprintf(stderr, "An instance of this daemon is already running\n");
		return 1;
	}
	unlink(at.sun_path);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 64)) {
		perror(at.sun_path);
		return 1;
	}
	if (background && (fork() || setsid() < 0))
		return 0;
	FILE *f = fopen(pid_file, "w");
	if (f) {
		fprintf(f, "%d\n", getpid());
		fclose(f);
	}
	if (background) {
		fclose(stdin), fclose(stdout), fclose(stderr);
	} else {
		puts("serving");
		fflush(stdout);
	}
	while (serve(fd))
		;
	unlink(at.sun_path);
	unlink(pid_file);
	return 0;
}

int main(int argc, char **argv) {
	char line[FK_MPS_PACKET], answer[FK_MPS_PACKET];
	if (argc == 2 && (!strcmp(argv[1], "-d") || !strcmp(argv[1], "-f")))
		return daemon_main(argv[1][1] == 'd');
	while (fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (!*line)
			continue;
		if (!fk_mps_ask(line, answer)) {
			fprintf(stderr, "Cannot find MPS control daemon process\n");
			return 1;
		}
		if (*answer)
			puts(answer);
	}
	return 0;
}
