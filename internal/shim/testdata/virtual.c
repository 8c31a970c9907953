// A clock for one process, preloaded into it: time passes where all threads sleep, to when the
// first of them has to wake, and a little with each look at it. What the machine does otherwise,
// and how late it wakes a thread, is not seen. It begins at one second.
//
// It stands before clock_gettime, nanosleep, clock_nanosleep, usleep, sched_yield and the futexes
// of syscall. A thread that waits in the C library, for a lock or for another's end, counts as one
// that runs; and a process that forks is not for it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)
#define LOOK_NS 40   // what a look at the clock takes
#define YIELD_NS 300 // and giving way

typedef struct sleeper {
	uint64_t until;
	uint32_t *word; // NULL: nobody wakes it before
	bool woken, in_time;
	pthread_cond_t wake;
	struct sleeper *next;
} sleeper;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t now = SECOND;
static uint32_t running = 1;
static sleeper *sleepers;

static void *next_of(const char *name) {
	void *p = dlsym(RTLD_NEXT, name);
	if (!p)
		abort();
	return p;
}

static void wake(sleeper *s, bool in_time) {
	sleeper **at = &sleepers;
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	s->woken = true, s->in_time = in_time;
	running++;
	pthread_cond_signal(&s->wake);
}

static sleeper *earliest(void) {
	sleeper *first = sleepers;
	for (sleeper *s = sleepers; s; s = s->next)
		if (s->until < first->until)
			first = s;
	return first;
}

// pass lets some time pass while a thread runs.
static void pass(uint64_t ns) {
	sleeper *s;
	now += ns;
	while ((s = earliest()) && s->until <= now)
		wake(s, false);
}

// rest is called when nobody runs.
static void rest(void) {
	sleeper *s = earliest();
	if (!s || s->until == UINT64_MAX)
		abort(); // nothing could happen any more
	now = s->until > now ? s->until : now;
	wake(s, false);
}

// rests sleeps until then, or until it is woken, which it reports. The lock is held.
static bool rests(uint32_t *word, uint64_t until) {
	sleeper s = {.until = until, .word = word, .wake = PTHREAD_COND_INITIALIZER, .next = sleepers};
	sleepers = &s;
	if (!--running)
		rest();
	while (!s.woken)
		pthread_cond_wait(&s.wake, &lock);
	pthread_cond_destroy(&s.wake);
	return s.in_time;
}

int clock_gettime(clockid_t id, struct timespec *t) {
	static int (*real)(clockid_t, struct timespec *);
	if (id != CLOCK_MONOTONIC) {
		if (!real)
			real = next_of("clock_gettime");
		return real(id, t);
	}
	pthread_mutex_lock(&lock);
	pass(LOOK_NS);
	*t = (struct timespec){.tv_sec = (time_t)(now / SECOND), .tv_nsec = (long)(now % SECOND)};
	pthread_mutex_unlock(&lock);
	return 0;
}

static uint64_t of(const struct timespec *t) {
	return (uint64_t)t->tv_sec * SECOND + (uint64_t)t->tv_nsec;
}

int nanosleep(const struct timespec *t, struct timespec *left) {
	(void)left;
	pthread_mutex_lock(&lock);
	rests(NULL, now + of(t));
	pthread_mutex_unlock(&lock);
	return 0;
}

int usleep(useconds_t us) {
	return nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

int clock_nanosleep(
	clockid_t id, int flags, const struct timespec *t, struct timespec *left) {
	(void)id, (void)left;
	pthread_mutex_lock(&lock);
	rests(NULL, of(t) + (flags & TIMER_ABSTIME ? 0 : now));
	pthread_mutex_unlock(&lock);
	return 0;
}

int sched_yield(void) {
	pthread_mutex_lock(&lock);
	pass(YIELD_NS);
	pthread_mutex_unlock(&lock);
	return 0;
}

// Operations, as far as they are used: one that waits for a time, one until a time, and one that
// wakes all.
static long futex(uint32_t *word, int operation, uint32_t value, const struct timespec *t) {
	int command = operation & ~FUTEX_PRIVATE_FLAG;
	long r = 0;
	pthread_mutex_lock(&lock);
	if (command == FUTEX_WAKE) {
		for (sleeper *s = sleepers, *next; s; s = next) {
			next = s->next;
			if (s->word == word)
				wake(s, true), r++;
		}
	} else if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value) {
		errno = EAGAIN, r = -1;
	} else if (!rests(word, of(t) + (command == FUTEX_WAIT ? now : 0))) {
		errno = ETIMEDOUT, r = -1;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

long syscall(long number, ...) {
	static long (*real)(long, ...);
	long a[6];
	va_list args;
	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (number == SYS_futex)
		return futex((uint32_t *)a[0], (int)a[1], (uint32_t)a[2], (const struct timespec *)a[3]);
	if (!real)
		real = next_of("syscall");
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

typedef struct {
	void *(*run)(void *);
	void *arg;
} begun;

static void ended(void *unused) {
	(void)unused;
	pthread_mutex_lock(&lock);
	if (!--running)
		rest();
	pthread_mutex_unlock(&lock);
}

static void *begin(void *p) {
	begun b = *(begun *)p;
	void *result;
	free(p);
	pthread_cleanup_push(ended, NULL);
	result = b.run(b.arg);
	pthread_cleanup_pop(1);
	return result;
}

int pthread_create(
	pthread_t *id, const pthread_attr_t *how, void *(*run)(void *), void *arg) {
	static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	begun *b = malloc(sizeof *b);
	if (!b)
		return EAGAIN;
	*b = (begun){run, arg};
	if (!real)
		real = next_of("pthread_create");
	pthread_mutex_lock(&lock);
	running++;
	pthread_mutex_unlock(&lock);
	int r = real(id, how, begin, b);
	if (r) {
		pthread_mutex_lock(&lock);
		running--;
		pthread_mutex_unlock(&lock);
		free(b);
	}
	return r;
}
