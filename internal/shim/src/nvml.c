/*
 * NVML's memory figures, as nvidia-smi and monitoring libraries ask for them: the job's in place of
 * the device's, for the device that the job is on.
 *
 * NVML also knows what this process has on the device, which measure.c asks for.
 */
#include "weir.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef void *nvml_device;
typedef struct { unsigned long long total, free, used; } memory_v1;
typedef struct { unsigned int version; unsigned long long total, reserved, free, used; } memory_v2;
typedef struct {
	unsigned int pid;
	unsigned long long used;
	unsigned int gpu_instance, compute_instance;
} process_info;

enum { NVML_SUCCESS = 0, NVML_FUNCTION_NOT_FOUND = 13 };

enum nvml_call { MEMORY_INFO, MEMORY_INFO_V2, UUID, HANDLE_BY_INDEX, RUNNING, INIT, NVML_CALLS };

static const char *const names[NVML_CALLS] = {
	"nvmlDeviceGetMemoryInfo",
	"nvmlDeviceGetMemoryInfo_v2",
	"nvmlDeviceGetUUID",
	"nvmlDeviceGetHandleByIndex_v2",
	"nvmlDeviceGetComputeRunningProcesses_v3",
	"nvmlInit_v2",
};
static void *reals[NVML_CALLS];

WEIR_EXPORT int nvmlDeviceGetMemoryInfo(nvml_device device, memory_v1 *m);
WEIR_EXPORT int nvmlDeviceGetMemoryInfo_v2(nvml_device device, memory_v2 *m);
void *weir_nvml_wrapper(const char *name, void *real);
void weir_report(uint64_t *free_bytes, uint64_t *total_bytes);

static void *nvml_real(enum nvml_call call)
{
	void *p = __atomic_load_n(&reals[call], __ATOMIC_ACQUIRE);
	if (p)
		return p;
	void *h = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
	p = h ? weir_dlsym_real(h, names[call]) : NULL;
	if (p && !weir_own_address(p))
		__atomic_store_n(&reals[call], p, __ATOMIC_RELEASE);
	return __atomic_load_n(&reals[call], __ATOMIC_ACQUIRE);
}

/* weir_nvml_wrapper is asked by dlsym; NULL: no wrapper has this name. */
void *weir_nvml_wrapper(const char *name, void *real)
{
	Dl_info info;
	if (!dladdr(real, &info) || !info.dli_fname || !strstr(info.dli_fname, "libnvidia-ml.so"))
		return NULL;
	for (int i = 0; i <= MEMORY_INFO_V2; i++)
		if (strcmp(name, names[i]) == 0) {
			__atomic_store_n(&reals[i], real, __ATOMIC_RELEASE);
			return i == MEMORY_INFO ? (void *)nvmlDeviceGetMemoryInfo
									: (void *)nvmlDeviceGetMemoryInfo_v2;
		}
	return NULL;
}

static int hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0'
		: c >= 'a' && c <= 'f'  ? c - 'a' + 10
		: c >= 'A' && c <= 'F'  ? c - 'A' + 10
								: -1;
}

/* ours tells whether the device is the job's, by the UUID on the page; without one there, every
 * device is. */
static bool ours(nvml_device device)
{
	unsigned char want[16], have[16] = {0};
	char text[96] = "";
	struct weir_header *h = weir_page();
	memcpy(want, h->device_uuid, sizeof want);
	int (*uuid)(nvml_device, char *, unsigned int);
	*(void **)&uuid = nvml_real(UUID);
	if (!memcmp(want, have, sizeof want) || !uuid ||
		uuid(device, text, sizeof text) != NVML_SUCCESS)
		return true;
	int digits = 0;
	for (const char *p = strchr(text, '-'); p && *p && digits < 32; p++)
		if (hex(*p) >= 0) {
			have[digits / 2] = (unsigned char)(have[digits / 2] << 4 | hex(*p));
			digits++;
		}
	return !memcmp(want, have, sizeof want);
}

WEIR_EXPORT int nvmlDeviceGetMemoryInfo(nvml_device device, memory_v1 *m)
{
	int (*real)(nvml_device, memory_v1 *);
	*(void **)&real = nvml_real(MEMORY_INFO);
	int r = real ? real(device, m) : NVML_FUNCTION_NOT_FOUND;
	if (r != NVML_SUCCESS || !m || !weir_ready() || !ours(device))
		return r;
	uint64_t f = m->free, t = m->total;
	weir_report(&f, &t);
	m->free = f;
	m->total = t;
	m->used = t - f;
	return r;
}

WEIR_EXPORT int nvmlDeviceGetMemoryInfo_v2(nvml_device device, memory_v2 *m)
{
	int (*real)(nvml_device, memory_v2 *);
	*(void **)&real = nvml_real(MEMORY_INFO_V2);
	int r = real ? real(device, m) : NVML_FUNCTION_NOT_FOUND;
	if (r != NVML_SUCCESS || !m || !weir_ready() || !ours(device))
		return r;
	uint64_t f = m->free, t = m->total;
	weir_report(&f, &t);
	m->free = f;
	m->total = t;
	m->used = t - f;
	m->reserved = 0;
	return r;
}

static bool start_nvml(void)
{
	static pid_t started; /* by which process: not by a child */
	int (*init)(void);
	pid_t self = getpid();
	if (__atomic_load_n(&started, __ATOMIC_RELAXED) == self)
		return true;
	*(void **)&init = nvml_real(INIT);
	if (!init || init() != NVML_SUCCESS)
		return false;
	__atomic_store_n(&started, self, __ATOMIC_RELAXED);
	return true;
}

/* weir_nvml_holds asks NVML what this process has on the job's device. In a container NVML may
 * number processes otherwise; then it is not told. */
bool weir_nvml_holds(uint64_t *bytes)
{
	enum { MOST = 256 };
	int (*by_index)(unsigned int, nvml_device *),
		(*running)(nvml_device, unsigned int *, process_info *);
	*(void **)&by_index = nvml_real(HANDLE_BY_INDEX);
	*(void **)&running = nvml_real(RUNNING);
	nvml_device device;
	if (!by_index || !running || !start_nvml())
		return false;
	if (by_index(weir_get(&weir_page()->device_ordinal), &device) != NVML_SUCCESS || !ours(device))
		return false;
	process_info *list = calloc(MOST, sizeof *list);
	unsigned int n = MOST, self = (unsigned int)getpid();
	bool found = false;
	if (list && running(device, &n, list) == NVML_SUCCESS)
		for (unsigned int i = 0; i < n && i < MOST && !found; i++)
			/* who can ask has a context, which takes some */
			if (list[i].pid == self && list[i].used && list[i].used != UINT64_MAX) {
				*bytes = list[i].used;
				found = true;
			}
	free(list);
	return found;
}
