// The fake libnvidia-ml: the same devices as the fake libcuda, read without joining them. Names,
// values and layouts are those of NVIDIA's nvml.h.
#include "../model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_UNINITIALIZED = 1,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_NO_PERMISSION = 4,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_ERROR_DRIVER_NOT_LOADED = 9,
	NVML_ERROR_FUNCTION_NOT_FOUND = 13,
	NVML_ERROR_UNKNOWN = 999,
} nvmlReturn_t;

typedef fk_device *nvmlDevice_t;
typedef struct { unsigned long long total, free, used; } nvmlMemory_t;
typedef struct {
	unsigned int version;
	unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;
typedef struct { unsigned int gpu, memory; } nvmlUtilization_t;
typedef struct { unsigned int pid; unsigned long long usedGpuMemory; } nvmlProcessInfo_v1_t;
typedef struct {
	unsigned int pid;
	unsigned long long usedGpuMemory;
	unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;
typedef struct {
	char busIdLegacy[16];
	unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
	char busId[32];
} nvmlPciInfo_t;
typedef struct {
	unsigned int pid;
	unsigned long long timeStamp;
	unsigned int smUtil, memUtil, encUtil, decUtil;
} nvmlProcessUtilizationSample_t;

typedef struct {
	const char *nameSpace;
	unsigned long long softLimit, hardLimit;
} nvmlSetMemoryLimits_v1_t;
typedef struct {
	const char *nameSpace;
	unsigned long long softLimit, hardLimit, currentUsed;
} nvmlGetMemoryLimits_v1_t;

enum { NVML_TOPOLOGY_INTERNAL = 0, NVML_TOPOLOGY_NODE = 40, LINKS = 4 };

#define NVML_API __attribute__((visibility("default"))) nvmlReturn_t
#define TRY(call) \
	do { \
		nvmlReturn_t result_ = (call); \
		if (result_) \
			return result_; \
	} while (0)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t users, count;
static fk_device devices[FK_DEVICES];

static nvmlReturn_t usable(void) {
	pthread_mutex_lock(&lock);
	nvmlReturn_t r = users ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
	pthread_mutex_unlock(&lock);
	return r;
}

// valid is what each call about a device begins with.
static nvmlReturn_t valid(nvmlDevice_t d, const void *out) {
	TRY(usable());
	return d >= devices && d < devices + count && out ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

NVML_API nvmlInitWithFlags(unsigned int flags) {
	(void)flags;
	nvmlReturn_t r = NVML_SUCCESS;
	pthread_mutex_lock(&lock);
	for (uint32_t i = count, all = fk_count(); i < all && !r; i++)
		if (fk_open(&devices[i], i))
			count++;
		else
			r = NVML_ERROR_DRIVER_NOT_LOADED;
	users += !r;
	pthread_mutex_unlock(&lock);
	return r;
}

NVML_API nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
NVML_API nvmlInit(void) { return nvmlInitWithFlags(0); }

NVML_API nvmlShutdown(void) {
	TRY(usable());
	pthread_mutex_lock(&lock);
	users--;
	while (!users && count) { // whoever begins anew may have other devices
		count--;
		munmap(devices[count].file, sizeof *devices[count].file);
		close(devices[count].fd);
	}
	pthread_mutex_unlock(&lock);
	return NVML_SUCCESS;
}

__attribute__((visibility("default"))) const char *nvmlErrorString(nvmlReturn_t r) {
	switch (r) {
	case NVML_SUCCESS:
		return "Success";
	case NVML_ERROR_UNINITIALIZED:
		return "Uninitialized";
	case NVML_ERROR_INVALID_ARGUMENT:
		return "Invalid Argument";
	case NVML_ERROR_NOT_SUPPORTED:
		return "Not Supported";
	case NVML_ERROR_NO_PERMISSION:
		return "Insufficient Permissions";
	case NVML_ERROR_FUNCTION_NOT_FOUND:
		return "Function Not Found";
	case NVML_ERROR_NOT_FOUND:
		return "Not Found";
	case NVML_ERROR_INSUFFICIENT_SIZE:
		return "Insufficient Size";
	case NVML_ERROR_DRIVER_NOT_LOADED:
		return "Driver Not Loaded";
	default:
		return "Unknown Error";
	}
}

static nvmlReturn_t text(char *out, unsigned int size, const char *value) {
	if (!out)
		return NVML_ERROR_INVALID_ARGUMENT;
	return (size_t)snprintf(out, size, "%s", value) < size ? NVML_SUCCESS
														   : NVML_ERROR_INSUFFICIENT_SIZE;
}

static const char *version(void) {
	const char *v = getenv("WEIR_FAKE_DRIVER_VERSION");
	return v ? v : "615.00.00-weir-fake";
}

NVML_API nvmlSystemGetDriverVersion(char *out, unsigned int size) {
	TRY(usable());
	return text(out, size, version());
}

NVML_API nvmlSystemGetNVMLVersion(char *out, unsigned int size) {
	TRY(usable());
	return text(out, size, "12.615.00.00-weir-fake");
}

NVML_API nvmlSystemGetCudaDriverVersion_v2(int *version) {
	TRY(usable());
	if (!version)
		return NVML_ERROR_INVALID_ARGUMENT;
	const char *v = getenv("WEIR_FAKE_CUDA_VERSION");
	*version = v && atoi(v) > 0 ? atoi(v) : 12090;
	return NVML_SUCCESS;
}

NVML_API nvmlSystemGetCudaDriverVersion(int *version) {
	return nvmlSystemGetCudaDriverVersion_v2(version);
}

NVML_API nvmlSystemGetProcessName(unsigned int pid, char *out, unsigned int size) {
	TRY(usable());
	char path[64], name[256] = "";
	snprintf(path, sizeof path, "/proc/%u/comm", pid);
	FILE *f = fopen(path, "r");
	if (!f)
		return NVML_ERROR_NOT_FOUND;
	if (fgets(name, sizeof name, f))
		name[strcspn(name, "\n")] = 0;
	fclose(f);
	return text(out, size, name);
}

NVML_API nvmlDeviceGetCount_v2(unsigned int *out) {
	TRY(usable());
	if (!out)
		return NVML_ERROR_INVALID_ARGUMENT;
	*out = count;
	return NVML_SUCCESS;
}

NVML_API nvmlDeviceGetCount(unsigned int *out) { return nvmlDeviceGetCount_v2(out); }

NVML_API nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *out) {
	TRY(usable());
	if (!out || index >= count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*out = &devices[index];
	return NVML_SUCCESS;
}

NVML_API nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *out) {
	return nvmlDeviceGetHandleByIndex_v2(index, out);
}

static uint32_t ordinal(nvmlDevice_t d) { return (uint32_t)(d - devices); }

NVML_API nvmlDeviceGetUUID(nvmlDevice_t d, char *out, unsigned int size) {
	TRY(valid(d, out));
	unsigned char u[16];
	char s[64];
	fk_uuid(d, u);
	snprintf(s, sizeof s,
		"GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1],
		u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
	return text(out, size, s);
}

NVML_API nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *out) {
	TRY(usable());
	char own[64];
	for (uint32_t i = 0; uuid && out && i < count; i++)
		if (!nvmlDeviceGetUUID(&devices[i], own, sizeof own) && !strcmp(own, uuid)) {
			*out = &devices[i];
			return NVML_SUCCESS;
		}
	return uuid && out ? NVML_ERROR_NOT_FOUND : NVML_ERROR_INVALID_ARGUMENT;
}

NVML_API nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *out) {
	TRY(usable());
	unsigned domain, bus, slot;
	if (!id || !out || sscanf(id, "%x:%x:%x", &domain, &bus, &slot) < 3)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (uint32_t i = 0; i < count; i++)
		if (!domain && !slot && bus == FK_BUS(i)) {
			*out = &devices[i];
			return NVML_SUCCESS;
		}
	return NVML_ERROR_NOT_FOUND;
}

NVML_API nvmlDeviceGetHandleByPciBusId(const char *id, nvmlDevice_t *out) {
	return nvmlDeviceGetHandleByPciBusId_v2(id, out);
}

NVML_API nvmlDeviceGetName(nvmlDevice_t d, char *out, unsigned int size) {
	TRY(valid(d, out));
	return text(out, size, FK_NAME);
}

NVML_API nvmlDeviceGetSerial(nvmlDevice_t d, char *out, unsigned int size) {
	TRY(valid(d, out));
	return text(out, size, "weir-fake");
}

NVML_API nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *out) {
	TRY(valid(d, out));
	*out = (nvmlPciInfo_t){.bus = FK_BUS(ordinal(d))};
	snprintf(out->busIdLegacy, sizeof out->busIdLegacy, "0000:%02X:00.0", out->bus & 0xff);
	snprintf(out->busId, sizeof out->busId, "00000000:%02X:00.0", out->bus & 0xff);
	return NVML_SUCCESS;
}

NVML_API nvmlDeviceGetPciInfo_v2(nvmlDevice_t d, nvmlPciInfo_t *out) {
	return nvmlDeviceGetPciInfo_v3(d, out);
}
NVML_API nvmlDeviceGetPciInfo(nvmlDevice_t d, nvmlPciInfo_t *out) {
	return nvmlDeviceGetPciInfo_v3(d, out);
}

// ANSWER makes a call that stores one number.
#define ANSWER(name, type, value) \
	NVML_API name(nvmlDevice_t d, type *out) { \
		TRY(valid(d, out)); \
		*out = (type)(value); \
		return NVML_SUCCESS; \
	}

ANSWER(nvmlDeviceGetIndex, unsigned int, ordinal(d))
ANSWER(nvmlDeviceGetMinorNumber, unsigned int, ordinal(d))
ANSWER(nvmlDeviceGetNumaNodeId, unsigned int, 0)
ANSWER(nvmlDeviceGetArchitecture, unsigned int, 9)
ANSWER(nvmlDeviceGetBrand, unsigned int, 0)
ANSWER(nvmlDeviceGetComputeMode, unsigned int, 0)
ANSWER(nvmlDeviceGetPersistenceMode, unsigned int, 1)
ANSWER(nvmlDeviceGetMaxMigDeviceCount, unsigned int, 0)
ANSWER(nvmlDeviceIsMigDeviceHandle, unsigned int, 0)
ANSWER(nvmlDeviceGetNumGpuCores, unsigned int, 64 * 128)

NVML_API nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned int *current, unsigned int *pending) {
	TRY(valid(d, current));
	if (!pending)
		return NVML_ERROR_INVALID_ARGUMENT;
	*current = *pending = 0;
	return NVML_SUCCESS;
}

NVML_API nvmlDeviceGetMigDeviceHandleByIndex(
	nvmlDevice_t d, unsigned int index, nvmlDevice_t *out) {
	(void)index;
	TRY(valid(d, out));
	return NVML_ERROR_NOT_FOUND;
}

NVML_API nvmlDeviceGetCudaComputeCapability(nvmlDevice_t d, int *major, int *minor) {
	TRY(valid(d, major));
	if (!minor)
		return NVML_ERROR_INVALID_ARGUMENT;
	*major = 9, *minor = 0;
	return NVML_SUCCESS;
}

static uint64_t used(nvmlDevice_t d) {
	fk_lock(d);
	fk_reap(d);
	uint64_t n = fk_used(d);
	fk_unlock(d);
	return n;
}

NVML_API nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *out) {
	TRY(valid(d, out));
	uint64_t total = d->file->terms.memory, n = used(d);
	*out = (nvmlMemory_t){.total = total, .free = total - n, .used = n};
	return NVML_SUCCESS;
}

NVML_API nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, nvmlMemory_v2_t *out) {
	TRY(valid(d, out));
	uint64_t total = d->file->terms.memory, n = used(d);
	*out = (nvmlMemory_v2_t){.version = out->version, .total = total, .free = total - n, .used = n};
	return NVML_SUCCESS;
}

// limitable is what both calls about limits begin with. Drivers before branch 615 have neither.
static nvmlReturn_t limitable(nvmlDevice_t d, const void *limits, const char *group) {
	TRY(valid(d, limits));
	if (atoi(version()) < 615)
		return NVML_ERROR_FUNCTION_NOT_FOUND;
	return group ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

// $WEIR_FAKE_LIMITS is what the call answers instead, to whomever; 0: it is done, to whomever.
NVML_API nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t d, nvmlSetMemoryLimits_v1_t *l) {
	TRY(limitable(d, l, l ? l->nameSpace : NULL));
	const char *told = getenv("WEIR_FAKE_LIMITS");
	if (told && atoi(told))
		return (nvmlReturn_t)atoi(told);
	if (!told && geteuid())
		return NVML_ERROR_NO_PERMISSION;
	if (l->softLimit > l->hardLimit)
		return NVML_ERROR_INVALID_ARGUMENT;
	fk_lock(d);
	bool set = fk_set_limit(d, l->nameSpace, l->softLimit, l->hardLimit);
	fk_unlock(d);
	return set ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

// A group that never had a limit is said to support none, as the driver's own bookkeeping does.
NVML_API nvmlDeviceGetMemoryLimits_v1(nvmlDevice_t d, nvmlGetMemoryLimits_v1_t *l) {
	TRY(limitable(d, l, l ? l->nameSpace : NULL));
	fk_lock(d);
	const fk_limit *found = fk_limit_of(d, l->nameSpace);
	if (found) {
		l->softLimit = found->soft, l->hardLimit = found->hard;
		l->currentUsed = fk_group_used(d, found->group);
	}
	fk_unlock(d);
	return found ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

// busy is the device's time for a process (0: for all) in the last window, from the record of who
// ran when. Called under fk_lock.
enum { WINDOW = 500000000 };

static uint64_t busy(nvmlDevice_t d, uint32_t pid) {
	const fk_clock *c = &d->file->clock;
	uint64_t sum = 0, from = c->now_ns > WINDOW ? c->now_ns - WINDOW : 0;
	if (c->open.busy_ns && c->open.end_ns > from && (!pid || pid == c->open.pid))
		sum += c->open.busy_ns;
	for (uint64_t i = c->segments; i-- > 0 && c->segments - i < FK_SEGMENTS;) {
		const fk_segment *s = &d->file->segments[i % FK_SEGMENTS];
		if (s->end_ns <= from)
			break;
		sum += !pid || pid == s->pid ? s->busy_ns : 0;
	}
	return sum < WINDOW ? sum : WINDOW;
}

NVML_API nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t *out) {
	TRY(valid(d, out));
	fk_lock(d);
	fk_advance(d);
	*out = (nvmlUtilization_t){.gpu = (unsigned int)(busy(d, 0) * 100 / WINDOW)};
	fk_unlock(d);
	return NVML_SUCCESS;
}

NVML_API nvmlDeviceGetProcessUtilization(nvmlDevice_t d, nvmlProcessUtilizationSample_t *out,
	unsigned int *n, unsigned long long since) {
	(void)since;
	TRY(valid(d, n));
	unsigned int found = 0;
	fk_lock(d);
	fk_reap(d);
	fk_advance(d);
	for (uint32_t i = 0; i < d->file->high; i++) {
		uint32_t pid = atomic_load(&d->file->slots[i].pid);
		if (!fk_lives(&d->file->slots[i]))
			continue;
		if (out && found < *n)
			out[found] = (nvmlProcessUtilizationSample_t){.pid = fk_pid(d, i),
				.timeStamp = d->file->clock.now_ns / 1000,
				.smUtil = (unsigned int)(busy(d, pid) * 100 / WINDOW)};
		found++;
	}
	fk_unlock(d);
	bool fits = out && found <= *n;
	*n = found;
	return fits || !found ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

// processes lists pids and the memory they hold.
static nvmlReturn_t processes(nvmlDevice_t d, unsigned int *n, void *infos, bool old) {
	TRY(valid(d, n));
	unsigned int found = 0, room = *n;
	const char *blind = getenv("WEIR_FAKE_NVML_BLIND");
	if (blind && strcmp(blind, "zero")) {
		*n = 0;
		return NVML_SUCCESS;
	}
	fk_lock(d);
	fk_reap(d);
	for (uint32_t i = 0; i < d->file->high; i++) {
		fk_slot *s = &d->file->slots[i];
		uint32_t pid;
		if (!fk_lives(s) || !(pid = fk_pid(d, i)))
			continue;
		uint64_t bytes =
			blind ? 0
				  : atomic_load(&s->memory) + atomic_load(&s->context_memory) + fk_adopted(d, i);
		if (infos && found < room && old)
			((nvmlProcessInfo_v1_t *)infos)[found] = (nvmlProcessInfo_v1_t){pid, bytes};
		else if (infos && found < room)
			((nvmlProcessInfo_t *)infos)[found] =
				(nvmlProcessInfo_t){pid, bytes, UINT32_MAX, UINT32_MAX};
		found++;
	}
	fk_unlock(d);
	*n = found;
	return found > room || (found && !infos) ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

NVML_API nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t d, unsigned int *n, void *out) {
	return processes(d, n, out, true);
}
NVML_API nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t d, unsigned int *n, void *out) {
	return processes(d, n, out, false);
}
NVML_API nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t d, unsigned int *n, void *out) {
	return processes(d, n, out, false);
}

NVML_API nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t d, unsigned int *n, void *out) {
	(void)out;
	TRY(valid(d, n));
	*n = 0;
	return NVML_SUCCESS;
}

NVML_API nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t d, unsigned int *n, void *out) {
	return nvmlDeviceGetGraphicsRunningProcesses_v3(d, n, out);
}

NVML_API nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t d, unsigned int *n, void *out) {
	return nvmlDeviceGetGraphicsRunningProcesses_v3(d, n, out);
}

// Topology: all devices hang on one NUMA node, and each pair is joined by LINKS NVLinks. A device's
// links go to the others in turn.
static nvmlDevice_t peer(nvmlDevice_t d, unsigned int link) {
	if (count < 2 || link >= LINKS * (count - 1))
		return NULL;
	uint32_t i = link / LINKS;
	return &devices[i + (i >= ordinal(d))];
}

NVML_API nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b, unsigned int *out) {
	TRY(valid(a, out));
	TRY(valid(b, out));
	*out = a == b ? NVML_TOPOLOGY_INTERNAL : NVML_TOPOLOGY_NODE;
	return NVML_SUCCESS;
}

NVML_API nvmlDeviceGetP2PStatus(
	nvmlDevice_t a, nvmlDevice_t b, unsigned int capability, unsigned int *out) {
	TRY(valid(a, out));
	TRY(valid(b, out));
	if (capability > 4 || a == b)
		return NVML_ERROR_INVALID_ARGUMENT;
	*out = 0; // NVML_P2P_STATUS_OK
	return NVML_SUCCESS;
}

NVML_API nvmlDeviceGetNvLinkState(nvmlDevice_t d, unsigned int link, unsigned int *out) {
	TRY(valid(d, out));
	if (link >= 18)
		return NVML_ERROR_INVALID_ARGUMENT;
	*out = peer(d, link) != NULL;
	return count < 2 ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

NVML_API nvmlDeviceGetNvLinkVersion(nvmlDevice_t d, unsigned int link, unsigned int *out) {
	TRY(valid(d, out));
	*out = 4;
	return peer(d, link) ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

NVML_API nvmlDeviceGetNvLinkRemotePciInfo_v2(
	nvmlDevice_t d, unsigned int link, nvmlPciInfo_t *out) {
	TRY(valid(d, out));
	return peer(d, link) ? nvmlDeviceGetPciInfo_v3(peer(d, link), out) : NVML_ERROR_NOT_SUPPORTED;
}

NVML_API nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t d, unsigned int link, nvmlPciInfo_t *out) {
	return nvmlDeviceGetNvLinkRemotePciInfo_v2(d, link, out);
}

// The other end of a link is a GPU. PyTorch's libraries look the call up with all that they use of
// this library, at the first allocation that fails, and give up where it is missing.
NVML_API nvmlDeviceGetNvLinkRemoteDeviceType(
	nvmlDevice_t d, unsigned int link, unsigned int *out) {
	TRY(valid(d, out));
	*out = 0; // NVML_NVLINK_DEVICE_TYPE_GPU
	return peer(d, link) ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

// mask sets the lowest bit of a set: CPU 0, or node 0.
static nvmlReturn_t mask(nvmlDevice_t d, unsigned int words, unsigned long *set) {
	TRY(valid(d, set));
	memset(set, 0, words * sizeof *set);
	if (words)
		set[0] = 1;
	return words ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

NVML_API nvmlDeviceGetMemoryAffinity(
	nvmlDevice_t d, unsigned int words, unsigned long *set, unsigned int scope) {
	(void)scope;
	return mask(d, words, set);
}

NVML_API nvmlDeviceGetCpuAffinity(nvmlDevice_t d, unsigned int words, unsigned long *set) {
	return mask(d, words, set);
}
