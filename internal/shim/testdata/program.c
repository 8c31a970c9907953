/*
 * The programs of the tests, one for each first argument. They know nothing of weir: they open the
 * driver as CUDA's runtime does, with dlopen and dlsym.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef uint64_t ptr;

static int (*Init)(unsigned);
static int (*CtxCreate)(void **, unsigned, int);
static int (*Alloc)(ptr *, size_t);
static int (*Free)(ptr);
static int (*Info)(size_t *, size_t *);
static int (*Total)(size_t *, int);
static int (*Launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
	void *, void **, void **);
static int (*StreamCreate)(void **, unsigned);
static int (*StreamDestroy)(void *);
static int (*StreamSync)(void *);
static int (*Proc)(const char *, void **, int, uint64_t, int *);
static uint64_t (*Peak)(void);
static void *lib;

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void check(int r, const char *what)
{
	if (r) {
		printf("%s: %d\n", what, r);
		fflush(stdout);
		_exit(3);
	}
}

static void look_up(void)
{
	lib = dlopen("libcuda.so.1", RTLD_NOW);
	if (!lib) {
		printf("no driver: %s\n", dlerror());
		exit(4);
	}
	*(void **)&Init = dlsym(lib, "cuInit");
	*(void **)&CtxCreate = dlsym(lib, "cuCtxCreate_v2");
	*(void **)&Alloc = dlsym(lib, "cuMemAlloc_v2");
	*(void **)&Free = dlsym(lib, "cuMemFree_v2");
	*(void **)&Info = dlsym(lib, "cuMemGetInfo_v2");
	*(void **)&Total = dlsym(lib, "cuDeviceTotalMem_v2");
	*(void **)&Launch = dlsym(lib, "cuLaunchKernel");
	*(void **)&StreamCreate = dlsym(lib, "cuStreamCreate");
	*(void **)&StreamDestroy = dlsym(lib, "cuStreamDestroy_v2");
	*(void **)&StreamSync = dlsym(lib, "cuStreamSynchronize");
	*(void **)&Proc = dlsym(lib, "cuGetProcAddress_v2");
	*(void **)&Peak = dlsym(lib, "driver_flying_peak");
}

static void start(void)
{
	void *c;
	check(Init(0), "cuInit");
	check(CtxCreate(&c, 0, 0), "cuCtxCreate");
}

static void kernel(uint64_t ns, void *stream)
{
	check(Launch((void *)ns, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL), "cuLaunchKernel");
}

static uint64_t number(char **args, int i, uint64_t otherwise)
{
	return args[i] ? strtoull(args[i], NULL, 0) : otherwise;
}

static uint32_t next_random(uint32_t *x)
{
	*x ^= *x << 13; /* Marsaglia, xorshift */
	*x ^= *x >> 17;
	return *x ^= *x << 5;
}

struct churn {
	uint32_t seed;
	uint64_t rounds, most;
	_Atomic uint64_t denied, granted;
};

#define HELD 32

/* Random allocations and frees; all is given back at the end. */
static void *churn(void *arg)
{
	struct churn *c = arg;
	ptr held[HELD] = {0};
	uint32_t x = c->seed;
	for (uint64_t i = 0; i < c->rounds; i++) {
		ptr *p = &held[next_random(&x) % HELD];
		if (*p) {
			check(Free(*p), "cuMemFree");
			*p = 0;
			continue;
		}
		int r = Alloc(p, 1 + next_random(&x) % c->most);
		if (r == 2) {
			*p = 0;
			c->denied++;
		} else {
			check(r, "cuMemAlloc");
			c->granted++;
		}
	}
	for (int i = 0; i < HELD; i++)
		if (held[i])
			check(Free(held[i]), "cuMemFree");
	return NULL;
}

static int memory(char **args)
{
	enum { THREADS = 8 };
	pthread_t t[THREADS];
	struct churn c[THREADS] = {0};
	uint64_t denied = 0, granted = 0;
	start();
	for (int i = 0; i < THREADS; i++) {
		c[i].seed = (uint32_t)getpid() * 31 + (uint32_t)i + 1;
		c[i].rounds = number(args, 0, 1000);
		c[i].most = number(args, 1, 1 << 20);
		pthread_create(&t[i], NULL, churn, &c[i]);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(t[i], NULL);
		denied += c[i].denied;
		granted += c[i].granted;
	}
	printf("granted %llu denied %llu\n", (unsigned long long)granted, (unsigned long long)denied);
	return 0;
}

static int info(char **args)
{
	size_t f, t, all;
	ptr p;
	start();
	int r = Alloc(&p, number(args, 0, 1));
	check(Info(&f, &t), "cuMemGetInfo");
	check(Total(&all, 0), "cuDeviceTotalMem");
	printf("alloc %d free %zu total %zu device %zu\n", r, f, t, all);
	return 0;
}

static int launches(char **args)
{
	void *s = NULL;
	uint64_t n = number(args, 0, 1), ns = number(args, 1, 1000);
	start();
	if (number(args, 2, 0))
		check(StreamCreate(&s, 0), "cuStreamCreate");
	for (uint64_t i = 0; i < n; i++)
		kernel(ns, s);
	check(StreamSync(s), "cuStreamSynchronize");
	printf("launched %llu peak %llu\n", (unsigned long long)n, (unsigned long long)Peak());
	fflush(stdout);
	usleep((useconds_t)number(args, 3, 0));
	return 0;
}

/* Launches of which nobody can know how long they last: of one function whose launches differ by a
 * factor of hundreds, once some have shown that, and of functions each launched once. */
static int surprises(char **args)
{
	enum { KNOWN = 256, RARE = 8 };
	void *s = NULL;
	uint32_t x = 7;
	uint64_t n = number(args, 0, 1), ns = number(args, 1, 1000);
	int once = (int)number(args, 2, 0);
	start();
	check(StreamCreate(&s, 0), "cuStreamCreate");
	for (uint64_t i = 0; i < n; i++) {
		uint64_t lasts = once ? ns : next_random(&x) % RARE ? ns / 200 : ns;
		void *params[] = {&lasts};
		check(Launch((void *)(once ? i + 1 : 1), 1, 1, 1, 1, 1, 1, 0, s, params, NULL),
			"cuLaunchKernel");
		if (!once && i < KNOWN)
			check(StreamSync(s), "cuStreamSynchronize");
	}
	check(StreamSync(s), "cuStreamSynchronize");
	printf("launched %llu peak %llu\n", (unsigned long long)n, (unsigned long long)Peak());
	return 0;
}

/* Single launches with pauses between them, in which the process has nothing in flight. */
static int pauses(char **args)
{
	start();
	for (uint64_t i = 0, n = number(args, 0, 100); i < n; i++) {
		kernel(1000, NULL);
		check(StreamSync(NULL), "cuStreamSynchronize");
		usleep((useconds_t)number(args, 1, 3000));
	}
	printf("done\n");
	return 0;
}

static void *init(void *result)
{
	*(int *)result = Init(0);
	pthread_testcancel();
	return NULL;
}

/* A thread is cancelled in its first call, once standard input has a line; then another makes the
 * same. */
static int cancelled(char **args)
{
	pthread_t t;
	void *end;
	int first = -1, second;
	(void)args;
	pthread_create(&t, NULL, init, &first);
	getchar();
	pthread_cancel(t);
	puts("cancelled");
	fflush(stdout);
	pthread_join(t, &end);
	init(&second);
	printf("%d %d %s\n", first, second, end == PTHREAD_CANCELED ? "joined" : "ended by itself");
	return 0;
}

static void *launch_one(void *unused)
{
	kernel(100, NULL);
	pthread_testcancel();
	return unused;
}

/* A thread is cancelled in the driver, which launches for it, after so many launches of the same.
 */
static int within(char **args)
{
	pthread_t t;
	void *end;
	int ends[2];
	start();
	for (int n = atoi(args[0]); n--;)
		kernel(100, NULL);
	_Atomic int *reads = dlsym(lib, "driver_reads"), *reading = dlsym(lib, "driver_reading");
	check(!reads || !reading || pipe(ends), "pipe");
	*reads = ends[0];
	pthread_create(&t, NULL, launch_one, NULL);
	while (!*reading)
		usleep(100);
	pthread_cancel(t);
	check(write(ends[1], "", 1) != 1, "write");
	pthread_join(t, &end);
	puts(end == PTHREAD_CANCELED ? "joined" : "ended by itself");
	fflush(stdout);
	getchar();
	return 0;
}

static int by_time(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

/* The median cost of a launch, in nanoseconds, from many short runs of launches. */
static int cost(char **args)
{
	enum { RUNS = 400, EACH = 100 };
	static uint64_t times[RUNS];
	start();
	(void)args;
	for (int i = 0; i < 64; i++)
		kernel(100, NULL);
	for (int r = 0; r < RUNS; r++) {
		uint64_t from = now();
		for (int i = 0; i < EACH; i++)
			kernel(100, NULL);
		times[r] = (now() - from) / EACH;
		check(StreamSync(NULL), "cuStreamSynchronize");
	}
	qsort(times, RUNS, sizeof *times, by_time);
	printf("p50 %llu ns\n", (unsigned long long)times[RUNS / 2]);
	return 0;
}

static void *launch_some(void *arg)
{
	void *c;
	check(CtxCreate(&c, 0, 0), "cuCtxCreate");
	for (int i = 0; i < 2000; i++)
		kernel(1000 + (uint64_t)i % 7 * 500, arg);
	return NULL;
}

static int threads(char **args)
{
	enum { MOST = 64 };
	pthread_t t[MOST];
	uint64_t n = number(args, 0, 8);
	void *shared;
	start();
	check(StreamCreate(&shared, 0), "cuStreamCreate");
	for (uint64_t i = 0; i < n && i < MOST; i++)
		pthread_create(&t[i], NULL, launch_some, i % 2 ? shared : NULL);
	for (uint64_t i = 0; i < n && i < MOST; i++)
		pthread_join(t[i], NULL);
	check(StreamSync(shared), "cuStreamSynchronize");
	check(StreamDestroy(shared), "cuStreamDestroy");
	printf("done\n");
	return 0;
}

/* the_page is where the job's page is mapped first. */
static volatile char *the_page(void)
{
	char line[512];
	void *at = NULL;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (maps && !at && fgets(line, sizeof line, maps))
		if (!strstr(line, "memfd:weir-job") || sscanf(line, "%p-", &at) != 1)
			at = NULL;
	if (maps)
		fclose(maps);
	return at;
}

/* A parent with memory and work forks; the child that uses CUDA does so anew, the other not at all.
 * What a call writes that the child goes on with, as one does whose thread forks in a signal's
 * handler, is not written into the parent's slot. */
static int forks(char **args)
{
	ptr p;
	size_t f, t;
	start();
	(void)args;
	check(Alloc(&p, 1000), "cuMemAlloc");
	kernel(1000, NULL);
	volatile char *page = the_page();
	if (!page) {
		printf("no page\n");
		return 3;
	}
	const char begins = *page;
	for (int uses = 0; uses < 2; uses++) {
		pid_t child = fork();
		if (child == 0) {
			++*page; /* of the number that says whose pages these are */
			if (uses) {
				start();
				check(Alloc(&p, 500), "cuMemAlloc");
				kernel(1000, NULL);
				check(Info(&f, &t), "cuMemGetInfo");
				printf("child free %zu\n", f);
				fflush(stdout);
			}
			_exit(0);
		}
		int status;
		waitpid(child, &status, 0);
		if (status || *page != begins) {
			printf("child %d: status %d, the page begins with %d\n", uses, status, *page);
			return 3;
		}
	}
	check(Free(p), "cuMemFree");
	kernel(1000, NULL);
	check(StreamSync(NULL), "cuStreamSynchronize");
	printf("parent done\n");
	return 0;
}

static const char *name_of(void *f)
{
	Dl_info at;
	static char text[256];
	if (!f || !dladdr(f, &at))
		return "none";
	const char *slash = strrchr(at.dli_fname, '/');
	snprintf(text, sizeof text, "%s %s", slash ? slash + 1 : at.dli_fname,
		at.dli_sname ? at.dli_sname : "?");
	return text;
}

/* Where look-ups lead. */
static int look_ups(char **args)
{
	static const struct {
		const char *name;
		int version;
		uint64_t flags;
	} asked[] = {{"cuMemFree", 2000, 0}, {"cuMemFree", 12000, 0}, {"cuMemFree", 99000, 0},
		{"cuMemAlloc", 12000, 0}, {"cuLaunchKernel", 12000, 1}, {"cuLaunchKernel", 12000, 2},
		{"cuEventQuery", 12000, 0}, {"cuNoSuchCall", 12000, 0}};
	(void)args;
	check(Init(0), "cuInit");
	for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
		void *f = NULL;
		int r = Proc(asked[i].name, &f, asked[i].version, asked[i].flags, NULL);
		printf("%s %d %d: %d %s\n", asked[i].name, asked[i].version, (int)asked[i].flags, r,
			name_of(f));
	}
	static const char *const symbols[] = {"cuMemFree_v2", "cuMemFree", "cuNoSuchCall",
		"cuMemCreate", "driver_flying_peak", "cuEventQuery"};
	for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
		printf("dlsym %s: %s\n", symbols[i], name_of(dlsym(lib, symbols[i])));
	printf("dlsym malloc: %s\n", dlsym(RTLD_DEFAULT, "malloc") ? "found" : "none");
	printf("dlsym next: %s\n", dlsym(RTLD_NEXT, "fopen") ? "found" : "none");
	return 0;
}

/* Calls that the driver lacks, reached as a linked program reaches them. */
static int lacking(char **args)
{
	int (*create)(ptr *, size_t, const void *, unsigned long long);
	int (*event)(void *, unsigned long long);
	*(void **)&create = dlsym(RTLD_DEFAULT, "cuMemCreate");
	*(void **)&event = dlsym(RTLD_DEFAULT, "cuGraphUpload");
	(void)args;
	start();
	ptr p;
	printf(
		"create %d upload %d\n", create ? create(&p, 1, NULL, 0) : -1, event ? event(NULL, 0) : -1);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(char **);
} programs[] = {{"memory", memory}, {"info", info}, {"launches", launches},
	{"cancelled", cancelled}, {"within", within}, {"surprises", surprises}, {"pauses", pauses},
	{"cost", cost}, {"threads", threads}, {"forks", forks}, {"lookups", look_ups},
	{"lacking", lacking}};

int main(int n, char **args)
{
	char *none[8] = {0};
	(void)n;
	look_up();
	for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
		if (args[1] && strcmp(args[1], programs[i].name) == 0) {
			for (int k = 0; k < 7 && args[1 + k]; k++)
				none[k] = args[2 + k];
			return programs[i].run(none);
		}
	fprintf(stderr, "no such program\n");
	return 2;
}
