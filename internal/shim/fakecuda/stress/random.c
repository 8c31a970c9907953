// random runs random programs, each from a seed in a process of its own: streams, events, copies by
// value, kernels with effects, graphs, captures, pools, arrays, virtual memory, stream memory
// operations, threads, forks, processes that share memory, processes that are killed. What a
// program should have left in memory is computed beside it, on the host, so a result that is not it
// is an error; and whatever the schedule, the same seed gives the same results.
//
// usage: random FROM COUNT [LIMIT_MS [JOB]]      default: 1000
// With JOB no other program's memory is among what it is told is not free.
// Prints for each seed: the seed, a digest of all that its calls returned and its memory held, its
// time in milliseconds, and of its process the pid, the bytes of large copies that it has made and
// the graphs that it has launched; and of each other process its pid, after killed, if it was, or
// forked, if it is a child of one that has used the device. A seed that fails, or takes longer than
// the limit, ends the run, with the seed on standard error. The device is the one in
// $WEIR_FAKE_DIR, which is looked at from outside.
#include "random_memory.h"

#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

static const char *image = "kernel wait us=arg0\nkernel fill us=3 does=fill\n"
						   "kernel add us=7 does=add\nkernel copy us=2 does=copy\n";

static void begin(CUcontext *c) {
	CUmodule m;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(c, 0));
	CHECK(CU(cuCtxSetCurrent)(*c));
	CHECK(CU(cuModuleLoadData)(&m, image));
	CHECK(CU(cuModuleGetFunction)(&kernels.wait, m, "wait"));
	CHECK(CU(cuModuleGetFunction)(&kernels.fill, m, "fill"));
	CHECK(CU(cuModuleGetFunction)(&kernels.add, m, "add"));
	CHECK(CU(cuModuleGetFunction)(&kernels.copy, m, "copy"));
	kernels.module = m;
	// A first launch may load the kernel, and for that wait until the context has no work, which is
	// for ever where a stream waits for the program (programming guide, "Lazy Loading").
	launch_wait(NULL, 1);
	launch_fill(kernels.fill, NULL, 0, 0, 0);
	launch_fill(kernels.add, NULL, 0, 0, 0);
	launch_copy(NULL, 0, 0, 0);
}

static void end(void) {
	CHECK(CU(cuModuleUnload)(kernels.module));
	CHECK(CU(cuDevicePrimaryCtxRelease_v2)(0));
}

typedef struct {
	world w;
	CUcontext context;
	unsigned steps, last; // last: the step before which the process kills itself
} thread_arg;

static void *work(void *p) {
	thread_arg *a = p;
	CHECK(CU(cuCtxSetCurrent)(a->context));
	world_begin(&a->w);
	for (unsigned i = 0; i < a->steps; i++) {
		if (i == a->last)
			raise(SIGKILL);
		step(&a->w);
	}
	world_end(&a->w);
	return NULL;
}

// done is what the process has done.
static struct {
	uint64_t digest, copied, graphs;
} done;

// life begins to use the device, has up to three threads, and ends with it.
static uint64_t life(uint64_t seed, bool dies) {
	enum { THREADS = 3 };
	static thread_arg args[THREADS];
	uint64_t rng = seed, digest = 0;
	unsigned threads = below(&rng, 3) ? 1 : 1 + below(&rng, THREADS);
	CUcontext c;
	pthread_t id[THREADS];
	begin(&c);
	for (unsigned i = 0; i < threads; i++) {
		args[i] = (thread_arg){.context = c, .steps = 4 + below(&rng, 24), .last = UINT32_MAX};
		args[i].w.rng = draw(&rng), args[i].w.alone = threads == 1;
		args[i].last = dies ? below(&rng, args[i].steps) : UINT32_MAX;
		HOLD(!pthread_create(&id[i], NULL, work, &args[i]));
	}
	for (unsigned i = 0; i < threads; i++) {
		pthread_join(id[i], NULL);
		digest = mix(digest, args[i].w.digest);
		done.copied += args[i].w.copied, done.graphs += args[i].w.graphs;
	}
	end();
	return digest;
}

// alone is a program of one process, which may begin anew.
static uint64_t alone(uint64_t seed, bool dies) {
	uint64_t rng = seed, digest = 0;
	for (unsigned again = below(&rng, 4) == 0; again; again--)
		digest = mix(digest, life(draw(&rng), false));
	return mix(digest, life(draw(&rng), dies));
}

// other waits for a process that was forked.
static void other(pid_t pid, bool killed) {
	int status;
	HOLD(waitpid(pid, &status, 0) == pid);
	HOLD(killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : !status);
	if (killed) {
		printf("killed %d\n", (int)pid);
		fflush(stdout);
	}
}

// beside_killed runs while another process of the same kind is killed.
static uint64_t beside_killed(uint64_t seed) {
	pid_t pid = fork();
	if (!pid) {
		alone(seed + 1, true);
		_exit(3); // it was to be killed
	}
	uint64_t digest = alone(seed, false);
	other(pid, true);
	return digest;
}

// ticket is what two processes tell each other of what they share.
typedef struct {
	CUipcMemHandle memory;
	CUipcEventHandle event;
	uint32_t words, value;
} ticket;

static void send_word(int to, const void *p, size_t n) { HOLD(write(to, p, n) == (ssize_t)n); }
static void receive(int from, void *p, size_t n) {
	HOLD(recv(from, p, n, MSG_WAITALL) == (ssize_t)n);
}

static bool holds(CUdeviceptr p, uint32_t words, uint32_t value) {
	static uint32_t got[1 << 14];
	CHECK(CU(cuMemcpyDtoH_v2)(got, p, 4 * (size_t)words));
	for (uint32_t i = 0; i < words; i++)
		if (got[i] != value)
			return false;
	return true;
}

// guest opens what the host process shares, in whose order of events it reads and writes.
static void guest(int fd, bool dies) {
	CUcontext c;
	CUdeviceptr p;
	CUevent e;
	ticket t;
	receive(fd, &t, sizeof t);
	begin(&c);
	CHECK(CU(cuIpcOpenMemHandle_v2)(&p, t.memory, 1));
	CHECK(CU(cuIpcOpenEventHandle)(&e, t.event));
	CHECK(CU(cuStreamWaitEvent)(NULL, e, 0));
	HOLD(holds(p, t.words, t.value));
	launch_fill(kernels.add, NULL, p, 1, t.words);
	CHECK(CU(cuStreamSynchronize)(NULL));
	send_word(fd, "", 1);
	if (dies)
		raise(SIGKILL);
	CHECK(CU(cuEventDestroy_v2)(e));
	CHECK(CU(cuIpcCloseMemHandle)(p));
	end();
}

// pair is a program of two processes that share memory and an event.
static uint64_t pair(uint64_t seed) {
	uint64_t rng = seed;
	bool dies = below(&rng, 3) == 0;
	int ends[2];
	char end_of_guest;
	HOLD(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	pid_t pid = fork();
	if (!pid) {
		close(ends[0]);
		guest(ends[1], dies);
		_exit(0);
	}
	close(ends[1]);
	CUcontext c;
	CUdeviceptr p;
	CUevent e;
	ticket t = {.words = 1 + below(&rng, 1 << 14), .value = (uint32_t)draw(&rng)};
	begin(&c);
	CHECK(CU(cuMemAlloc_v2)(&p, 4 * (size_t)t.words));
	CHECK(CU(cuEventCreate)(&e, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	CHECK(CU(cuIpcGetMemHandle)(&t.memory, p));
	CHECK(CU(cuIpcGetEventHandle)(&t.event, e));
	launch_wait(NULL, below(&rng, 3000));
	launch_fill(kernels.fill, NULL, p, t.value, t.words);
	CHECK(CU(cuEventRecord)(e, NULL));
	send_word(ends[0], &t, sizeof t);
	receive(ends[0], &end_of_guest, 1);
	other(pid, dies);
	HOLD(holds(p, t.words, t.value + 1));
	CHECK(CU(cuEventDestroy_v2)(e));
	CHECK(CU(cuMemFree_v2)(p));
	end();
	close(ends[0]);
	return mix(t.value, t.words);
}

// forked is a program whose child comes to nothing: the driver refuses it. It is told of, as a
// process that is to be known by itself.
static uint64_t forked(uint64_t seed) {
	uint64_t digest = alone(seed, false);
	CUresult (*init)(unsigned int) = CU(cuInit);
	pid_t pid = fork();
	if (!pid)
		_exit(init(0) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 4);
	other(pid, false);
	printf("forked %d\n", (int)pid);
	fflush(stdout);
	return digest;
}

static uint64_t program(uint64_t seed, bool job) {
	uint64_t rng = seed;
	uint32_t kind = below(&rng, 16);
	solo = job && kind > 3;
	switch (kind) {
	case 0:
	case 1:
		return pair(draw(&rng));
	case 2:
		return beside_killed(draw(&rng));
	case 3:
		return forked(draw(&rng));
	default:
		return alone(draw(&rng), false);
	}
}

static double now_ms(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

// starved is for how many microseconds some process of the machine has waited for a processor until
// now (the kernel's accounting/psi.rst), 0 where the kernel does not tell.
static uint64_t starved(void) {
	unsigned long long us = 0;
	FILE *f = fopen("/proc/pressure/cpu", "r");
	if (f && fscanf(f, "some %*s %*s %*s total=%llu", &us) != 1)
		us = 0;
	if (f)
		fclose(f);
	return us;
}

// queued is for how many microseconds the threads of a process group have waited for a processor
// until now (proc_pid_schedstat(5)), by those that are still there.
static int64_t queued(pid_t group) {
	glob_t threads;
	int64_t sum = 0;
	if (glob("/proc/[0-9]*/task/[0-9]*/schedstat", 0, NULL, &threads))
		return 0;
	for (size_t i = 0; i < threads.gl_pathc; i++) {
		long long waited_ns = 0;
		const char *path = threads.gl_pathv[i];
		if (getpgid(atoi(path + strlen("/proc/"))) != group)
			continue;
		FILE *f = fopen(path, "r");
		if (f && fscanf(f, "%*s %lld", &waited_ns) == 1)
			sum += waited_ns / 1000;
		if (f)
			fclose(f);
	}
	globfree(&threads);
	return sum;
}

// tells waits until there is something to read, no longer than the limit. Of a wait of a tick no
// more counts, however long it took, and that only as far as there was a processor for everybody:
// the process that is waited for may be one of those that had none. The pressure of the whole
// machine is a mean over its processors, so one that is full beside an idle one is not in it: what
// the group's own threads have waited counts no more either. A program that hangs on a machine that
// always does too much is found after so many times the limit.
static bool tells(int fd, pid_t group, int limit_ms) {
	enum { TICK_MS = 10, TIMES = 20 };
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int64_t left_us = INT64_C(1000) * limit_ms, credited = 0;
	uint64_t before = starved();
	for (int looks = TIMES * limit_ms / TICK_MS; looks && left_us > 0; looks--) {
		if (poll(&p, 1, TICK_MS) > 0)
			return true;
		uint64_t now = starved(), lost = now - before;
		left_us -= lost < 1000 * TICK_MS ? 1000 * TICK_MS - (int64_t)lost : 0;
		before = now;
		int64_t waited = left_us > 0 ? 0 : queued(group);
		if (waited > credited) {
			left_us += waited - credited;
			credited = waited;
		}
	}
	return false;
}

// run has a process run one seed. It must end well, within the limit.
static bool run(uint64_t seed, int limit_ms, bool job) {
	int ends[2], status = 0;
	double start = now_ms();
	if (pipe(ends))
		return false;
	pid_t pid = fork();
	if (!pid) {
		close(ends[0]);
		setpgid(0, 0);
		done.digest = program(seed, job);
		send_word(ends[1], &done, sizeof done);
		exit(0);
	}
	setpgid(pid, pid);
	close(ends[1]);
	bool in_time = tells(ends[0], pid, limit_ms);
	bool ok = in_time && read(ends[0], &done, sizeof done) == (ssize_t)sizeof done;
	if (!ok)
		kill(-pid, SIGKILL);
	waitpid(pid, &status, 0);
	close(ends[0]);
	if (ok && !status) {
		printf("%llu %016llx %.1f %d %llu %llu\n", (unsigned long long)seed,
			(unsigned long long)done.digest, now_ms() - start, (int)pid,
			(unsigned long long)done.copied, (unsigned long long)done.graphs);
		fflush(stdout);
		memset(&done, 0, sizeof done);
		return true;
	}
	fprintf(stderr, "random: seed %llu: %s\n", (unsigned long long)seed,
		in_time ? "failed" : "no end within the limit");
	return false;
}

int main(int argc, char **argv) {
	if (argc < 3) {
		fprintf(stderr, "usage: random FROM COUNT [LIMIT_MS [JOB]]\n");
		return 2;
	}
	uint64_t from = strtoull(argv[1], NULL, 10), count = strtoull(argv[2], NULL, 10);
	int limit = argc > 3 ? atoi(argv[3]) : 1000;
	for (uint64_t seed = from; seed < from + count; seed++)
		if (!run(seed, limit, argc > 4))
			return 1;
	return 0;
}
