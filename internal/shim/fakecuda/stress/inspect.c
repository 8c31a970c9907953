// inspect prints what the management library says, as a monitor would read it: one line of JSON per
// device, then the matrix of links.
//
// usage: inspect
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct { unsigned long long total, free, used; } memory;
typedef struct { unsigned int gpu, memory; } utilization;
typedef struct { unsigned int pid; unsigned long long used; unsigned int instances[2]; } process;
typedef struct {
	char legacy[16];
	unsigned int domain, bus, device, id, subsystem;
	char bus_id[32];
} place;

static void *library;

// NV calls one function of the library by its type; one that is missing, or a failure, ends the
// program.
static void check(const char *name, int result) {
	if (!result)
		return;
	fprintf(stderr, "%s: %d\n", name, result);
	exit(1);
}

#define NV(name, types, ...) \
	do { \
		int (*call) types = (int (*) types)dlsym(library, #name); \
		check(#name, call ? call(__VA_ARGS__) : -1); \
	} while (0)

static void device(unsigned index) {
	enum { MOST = 64 };
	void *d;
	char name[96], uuid[96];
	memory m;
	utilization u;
	place pci;
	process all[MOST];
	unsigned count = MOST, mig, pending;
	NV(nvmlDeviceGetHandleByIndex_v2, (unsigned, void **), index, &d);
	NV(nvmlDeviceGetName, (void *, char *, unsigned), d, name, sizeof name);
	NV(nvmlDeviceGetUUID, (void *, char *, unsigned), d, uuid, sizeof uuid);
	NV(nvmlDeviceGetMemoryInfo, (void *, memory *), d, &m);
	NV(nvmlDeviceGetUtilizationRates, (void *, utilization *), d, &u);
	NV(nvmlDeviceGetPciInfo_v3, (void *, place *), d, &pci);
	NV(nvmlDeviceGetMigMode, (void *, unsigned *, unsigned *), d, &mig, &pending);
	NV(nvmlDeviceGetComputeRunningProcesses_v3, (void *, unsigned *, process *), d, &count, all);
	printf("{\"name\":\"%s\",\"uuid\":\"%s\",\"bus\":\"%s\",\"total\":%llu,\"used\":%llu,"
		"\"gpu\":%u,\"mig\":%u,\"processes\":{",
		name, uuid, pci.bus_id, m.total, m.used, u.gpu, mig);
	for (unsigned i = 0; i < count; i++)
		printf("%s\"%u\":%llu", i ? "," : "", all[i].pid, all[i].used);
	puts("}}");
}

// links counts a device's links to each device, which are all to GPUs.
static void links(unsigned from, unsigned count) {
	void *d, *other;
	place ours, theirs;
	NV(nvmlDeviceGetHandleByIndex_v2, (unsigned, void **), from, &d);
	for (unsigned to = 0; to < count; to++) {
		unsigned found = 0, up, kind;
		NV(nvmlDeviceGetHandleByIndex_v2, (unsigned, void **), to, &other);
		NV(nvmlDeviceGetPciInfo_v3, (void *, place *), other, &ours);
		for (unsigned link = 0; link < 18; link++) {
			NV(nvmlDeviceGetNvLinkState, (void *, unsigned, unsigned *), d, link, &up);
			if (!up)
				continue;
			NV(nvmlDeviceGetNvLinkRemotePciInfo_v2, (void *, unsigned, place *), d, link, &theirs);
			NV(nvmlDeviceGetNvLinkRemoteDeviceType, (void *, unsigned, unsigned *), d, link, &kind);
			found += theirs.bus == ours.bus && !kind; // 0: a GPU
		}
		printf("%s%u", to ? " " : "", found);
	}
	puts("");
}

int main(void) {
	unsigned count;
	if (!(library = dlopen("libnvidia-ml.so.1", RTLD_NOW))) {
		fprintf(stderr, "no NVML: %s\n", dlerror());
		return 2;
	}
	NV(nvmlInit_v2, (void), );
	NV(nvmlDeviceGetCount_v2, (unsigned *), &count);
	for (unsigned i = 0; i < count; i++)
		device(i);
	for (unsigned i = 0; i < count && count > 1; i++)
		links(i, count);
	NV(nvmlShutdown, (void), );
	return 0;
}
