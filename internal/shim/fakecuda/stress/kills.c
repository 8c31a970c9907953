// kills starts a program again and again, several at a time, and kills each with SIGKILL at a
// random moment.
//
// usage: kills COUNT AT-A-TIME MOST-MS PROGRAM [ARGUMENT...] Prints JSON, kills and ended (those
// that ended before they were killed), and stays until its input ends.
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// one starts the program and kills it; true: it was still there.
static int one(char **argv, unsigned most_us, unsigned *seed) {
	pid_t pid = fork();
	if (!pid) {
		if (!freopen("/dev/null", "w", stdout))
			_exit(126);
		execv(argv[0], argv);
		_exit(127);
	}
	usleep((unsigned)rand_r(seed) % most_us);
	int status = 0;
	kill(pid, SIGKILL);
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status);
}

int main(int argc, char **argv) {
	if (argc < 5)
		return 2;
	int count = atoi(argv[1]), abreast = atoi(argv[2]), killed = 0;
	unsigned most_us = (unsigned)atoi(argv[3]) * 1000;
	int pipes[2];
	if (abreast < 1 || !most_us || pipe(pipes))
		return 2;
	for (int i = 0; i < abreast; i++)
		if (!fork()) {
			unsigned seed = (unsigned)time(NULL) + (unsigned)i * 7919;
			int mine = 0;
			for (int k = i; k < count; k += abreast)
				mine += one(argv + 4, most_us, &seed);
			if (write(pipes[1], &mine, sizeof mine) != sizeof mine)
				_exit(1);
			_exit(0);
		}
	for (int i = 0, mine; i < abreast; i++)
		if (read(pipes[0], &mine, sizeof mine) == sizeof mine)
			killed += mine;
	printf("{\"kills\":%d,\"ended\":%d}\n", killed, count - killed);
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
