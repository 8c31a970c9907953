// What is preloaded into a process so that its sleeps tell: waits for a futex that are given a
// twentieth of a second or more, after which a thread looks again by itself, are given a hundred
// times as long. Who sleeps over what was to wake it is then late by seconds, and no host is so
// busy that it is late by as much otherwise.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>

#define SECOND UINT64_C(1000000000)
#define LONG_NS UINT64_C(50000000)
#define TIMES 100

long syscall(long number, ...) {
	static long (*real)(long, ...);
	struct timespec longer;
	long a[6];
	va_list args;
	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (!real && !(*(void **)&real = dlsym(RTLD_NEXT, "syscall")))
		abort();
	if (number == SYS_futex && ((int)a[1] & ~FUTEX_PRIVATE_FLAG) == FUTEX_WAIT && a[3]) {
		const struct timespec *t = (const struct timespec *)a[3];
		uint64_t ns = (uint64_t)t->tv_sec * SECOND + (uint64_t)t->tv_nsec;
		if (ns >= LONG_NS) {
			ns *= TIMES;
			longer = (struct timespec){(time_t)(ns / SECOND), (long)(ns % SECOND)};
			a[3] = (long)&longer;
		}
	}
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
