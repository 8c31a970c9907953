/* A stand-in for NVIDIA's management library: four GPUs with known answers, for tests of the
 * reader. BARE leaves out everything that old drivers lack, REFUSE supports nothing but counting,
 * NODRIVER does not start, LOST has one GPU that fell off the bus, GREEDY tells absurd counts,
 * LIMITS has limits of memory, and answers with its value where that is not 1. */
#include <string.h>
#include <stdio.h>

typedef int ret;
enum { OK = 0, INVALID = 2, UNSUPPORTED = 3, NOT_FOUND = 6, NO_DRIVER = 9, LOST_GPU = 15 };

typedef struct { int gpu; int instance; } *dev;
static struct {
	int gpu;
	int instance;
} gpus[4] = {{0, -1}, {1, -1}, {2, -1}, {3, -1}}, parts[2] = {{3, 0}, {3, 1}};

typedef struct {
    char legacy[16];
    unsigned domain, bus, device, id, system;
    char bus_id[32];
} pci_info;
typedef struct { unsigned long long total, free, used; } memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory2;
typedef struct {
    unsigned sm, copy, dec, enc, jpeg, ofa, gpu_slices, compute_slices;
    unsigned long long mib;
} attributes;

static const unsigned buses[4] = {0x17, 0x3d, 0x9a, 0xC1};
static const unsigned long long GiB = 1ull << 30;

static int is_gpu(dev d) { return d >= (dev)gpus && d < (dev)gpus + 4; }
static ret put(char *to, unsigned size, const char *from) {
    if (strlen(from) + 1 > size) return 7;
    strcpy(to, from);
    return OK;
}

#ifdef NODRIVER
ret nvmlInit_v2(void) { return NO_DRIVER; }
#elif defined BARE
ret nvmlInit(void) { return OK; }
#else
ret nvmlInit_v2(void) { return OK; }
#endif
ret nvmlShutdown(void) { return OK; }

#ifdef GREEDY
ret nvmlDeviceGetCount_v2(unsigned *n) { *n = 0xffffffffu; return OK; }
#elif defined BARE
ret nvmlDeviceGetCount(unsigned *n) { *n = 2; return OK; }
#else
ret nvmlDeviceGetCount_v2(unsigned *n) { *n = 4; return OK; }
#endif

#ifdef BARE
ret nvmlDeviceGetHandleByIndex(unsigned i, dev *d) {
#else
ret nvmlDeviceGetHandleByIndex_v2(unsigned i, dev *d) {
#endif
    if (i >= 4) return INVALID;
#ifdef LOST
    if (i == 1) return LOST_GPU;
#endif
    *d = (dev)&gpus[i];
    return OK;
}

#if defined REFUSE
#define ANSWER(name, params) ret name params { return UNSUPPORTED; }
ANSWER(nvmlSystemGetDriverVersion, (char *t, unsigned n))
ANSWER(nvmlSystemGetCudaDriverVersion_v2, (int *v))
ANSWER(nvmlDeviceGetName, (dev d, char *t, unsigned n))
ANSWER(nvmlDeviceGetUUID, (dev d, char *t, unsigned n))
ANSWER(nvmlDeviceGetPciInfo_v3, (dev d, pci_info *p))
ANSWER(nvmlDeviceGetMemoryInfo, (dev d, memory *m))
ANSWER(nvmlDeviceGetMemoryInfo_v2, (dev d, memory2 *m))
ANSWER(nvmlDeviceGetAttributes_v2, (dev d, attributes *a))
ANSWER(nvmlDeviceGetCudaComputeCapability, (dev d, int *a, int *b))
ANSWER(nvmlDeviceGetNumGpuCores, (dev d, unsigned *n))
ANSWER(nvmlDeviceGetCpuAffinity, (dev d, unsigned n, unsigned long *set))
ANSWER(nvmlDeviceGetMigMode, (dev d, unsigned *a, unsigned *b))
ANSWER(nvmlDeviceGetTopologyCommonAncestor, (dev a, dev b, unsigned *l))
ANSWER(nvmlDeviceGetP2PStatus, (dev a, dev b, unsigned c, unsigned *s))
ANSWER(nvmlDeviceGetNvLinkState, (dev d, unsigned l, unsigned *a))
ANSWER(nvmlDeviceGetNvLinkRemotePciInfo_v2, (dev d, unsigned l, pci_info *p))
#else

ret nvmlSystemGetDriverVersion(char *t, unsigned n) {
#ifdef BARE
    return put(t, n, "390.157");
#else
    return put(t, n, "570.86.15");
#endif
}

ret nvmlDeviceGetName(dev d, char *t, unsigned n) {
    if (!is_gpu(d)) return put(t, n, "NVIDIA Example 80GB MIG 1g.10gb");
    return put(t, n, "NVIDIA Example 80GB");
}

ret nvmlDeviceGetUUID(dev d, char *t, unsigned n) {
    char text[64];
    if (is_gpu(d))
        snprintf(text, sizeof text, "GPU-00000000-0000-0000-0000-00000000000%d", d->gpu);
    else
        snprintf(text, sizeof text, "MIG-00000000-0000-0000-0000-00000000000%d", d->instance);
    return put(t, n, text);
}

static void place(pci_info *p, unsigned domain, unsigned bus) {
    memset(p, 0, sizeof *p);
    p->domain = domain, p->bus = bus;
    snprintf(p->bus_id, sizeof p->bus_id, "%08X:%02X:00.0", domain, bus);
}

#ifdef BARE
ret nvmlDeviceGetPciInfo_v2(dev d, pci_info *p) {
#else
ret nvmlDeviceGetPciInfo_v3(dev d, pci_info *p) {
#endif
    place(p, 0, buses[d->gpu]);
    return OK;
}

ret nvmlDeviceGetMemoryInfo(dev d, memory *m) {
    unsigned long long all = is_gpu(d) ? 80 : 10;
    *m = (memory){all * GiB, (all - 2) * GiB, 2 * GiB};
    return OK;
}

ret nvmlDeviceGetCudaComputeCapability(dev d, int *major, int *minor) {
    *major = 9, *minor = 0;
    return OK;
}

#ifndef BARE
ret nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = 12080; return OK; }

ret nvmlDeviceGetMemoryInfo_v2(dev d, memory2 *m) {
    if (m->version != (sizeof *m | 2 << 24)) return 25;
    if (!is_gpu(d)) return UNSUPPORTED;
    *m = (memory2){m->version, 80 * GiB, GiB, 60 * GiB, 19 * GiB};
    return OK;
}

ret nvmlDeviceGetAttributes_v2(dev d, attributes *a) {
    if (is_gpu(d)) return UNSUPPORTED;
    *a = (attributes){.sm = 16, .copy = 1, .gpu_slices = 1, .compute_slices = 1, .mib = 9856};
    return OK;
}

ret nvmlDeviceGetNumGpuCores(dev d, unsigned *n) { *n = 132 * 128; return OK; }

ret nvmlDeviceGetCpuAffinity(dev d, unsigned n, unsigned long *set) {
    if (n < 2) return INVALID;
    memset(set, 0, n * sizeof *set);
    set[d->gpu / 2] = 0xf;
    return OK;
}

ret nvmlDeviceGetMigMode(dev d, unsigned *current, unsigned *pending) {
    *current = *pending = d->gpu == 3;
    return OK;
}
ret nvmlDeviceGetMaxMigDeviceCount(dev d, unsigned *n) { *n = d->gpu == 3 ? 7 : 0; return OK; }
ret nvmlDeviceGetMigDeviceHandleByIndex(dev d, unsigned i, dev *part) {
    if (i != 0 && i != 4) return NOT_FOUND; /* gaps between instances are usual */
    *part = (dev)&parts[i / 4];
    return OK;
}
ret nvmlDeviceGetGpuInstanceId(dev d, unsigned *id) { *id = 7 + d->instance; return OK; }
ret nvmlDeviceGetComputeInstanceId(dev d, unsigned *id) { *id = 0; return OK; }

ret nvmlDeviceGetTopologyCommonAncestor(dev a, dev b, unsigned *level) {
    *level = a->gpu / 2 == b->gpu / 2 ? 10 : 50;
    return OK;
}

/* 0 and 1 have four connections to each other, all of 0, 1 and 2 have six into a switch, 2 in a
 * partition of its own. */
ret nvmlDeviceGetP2PStatus(dev a, dev b, unsigned capability, unsigned *status) {
    *status = a->gpu < 2 && b->gpu < 2 ? 0 : 5;
    return OK;
}
ret nvmlDeviceGetNvLinkState(dev d, unsigned link, unsigned *active) {
    if (d->gpu == 3) return UNSUPPORTED;
    if (link >= 12) return INVALID;
    *active = link < 10 && (d->gpu < 2 || link >= 4);
    return OK;
}
ret nvmlDeviceGetNvLinkRemotePciInfo_v2(dev d, unsigned link, pci_info *p) {
    if (link < 4)
        place(p, 0, buses[1 - d->gpu]);
    else
        place(p, 0, 0xe0 + link);
    return OK;
}
#ifndef OLDLINKS
ret nvmlDeviceGetNvLinkRemoteDeviceType(dev d, unsigned link, unsigned *kind) {
    *kind = link < 4 ? 0 : 2;
    return OK;
}
#endif
#ifdef LIMITS
/* One group may be limited, by nobody but root where LIMITS is 4, and not on the last GPU, which is
 * cut into instances. */
typedef struct { const char *group; unsigned long long soft, hard, used; } limits;
static limits limit = {NULL, 0, ~0ull, 0};
ret nvmlDeviceSetMemoryLimits_v1(dev d, const limits *l) {
    if (LIMITS != 1) return LIMITS;
    if (d->gpu == 3) return UNSUPPORTED;
    if (strcmp(l->group, "/sys/fs/cgroup/job") || l->soft) return NOT_FOUND;
    limit.hard = l->hard;
    return OK;
}
ret nvmlDeviceGetMemoryLimits_v1(dev d, limits *l) {
    if (strcmp(l->group, "/sys/fs/cgroup/job")) return NOT_FOUND;
    if (limit.hard == ~0ull) return UNSUPPORTED;
    l->hard = limit.hard;
    return OK;
}
#endif
#endif /* BARE */
#endif /* REFUSE */
