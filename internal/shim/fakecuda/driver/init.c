// Initialisation and the properties of devices.
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUS(index) FK_BUS(fk.queues[index].device.file->terms.ordinal)

static void in_child(void) {
	if (atomic_load(&fk.ready))
		atomic_store(&fk.forked, 1);
}

// take_down is the driver's own handler of exit. A thread that comes into the driver from then on
// finds it half gone (fk_usable).
static void take_down(void) {
	if (atomic_load(&fk.forked))
		return;
	atomic_store(&fk.exiting, fk_thread());
	fk_sleep_until(NULL, 0, fk_now() + 1000 * FK_KNOB(&fk.queues[0].device, exit_us));
}

void fk_exit_with(bool context) {
	static bool registered;
	const fk_device *d = &fk.queues[0].device;
	if (registered || !FK_KNOB(d, exit_us) || context != (FK_KNOB(d, exit_late) != 0))
		return;
	registered = true;
	atexit(take_down);
}

static void watch_forks(void) { pthread_atfork(NULL, NULL, in_child); }

FK_API cuInit(unsigned int flags) {
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (atomic_load(&fk.forked))
		return CUDA_ERROR_NOT_INITIALIZED;
	pthread_once(&once, watch_forks);
	fk_enter();
	if (atomic_load(&fk.ready))
		return fk_leave(CUDA_SUCCESS);
	uint32_t visible[FK_DEVICES], count = fk_visible(visible);
	for (uint32_t i = 0; i < count; i++)
		if (!fk_open(&fk.queues[i].device, visible[i]))
			return fk_leave(CUDA_ERROR_OPERATING_SYSTEM);
	if (!count)
		return fk_leave(CUDA_ERROR_NO_DEVICE);
	fk.count = count;
	fk_mps_join();
	fk.random = fk_now() | 1;
	fk_exit_with(false);
	atomic_store_explicit(&fk.ready, 1, memory_order_release);
	return fk_leave(CUDA_SUCCESS);
}

// The version is that of the newest call declared in calls.h; WEIR_FAKE_CUDA_VERSION (12090 and so
// on) changes it.
FK_API cuDriverGetVersion(int *version) {
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	const char *text = getenv("WEIR_FAKE_CUDA_VERSION");
	int v = text ? atoi(text) : 0;
	*version = v > 0 ? v : 12090;
	return CUDA_SUCCESS;
}

FK_API cuDeviceGet(CUdevice *device, int ordinal) {
	FK_TRY(fk_device_ok(ordinal));
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

FK_API cuDeviceGetCount(int *count) {
	FK_TRY(fk_usable());
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = (int)fk.count;
	return CUDA_SUCCESS;
}

FK_API cuDeviceGetName(char *name, int len, CUdevice device) {
	FK_TRY(fk_device_ok(device));
	if (!name || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(name, (size_t)len, "%s", FK_NAME);
	return CUDA_SUCCESS;
}

FK_API cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
	FK_TRY(fk_device_ok(device));
	if (!uuid)
		return CUDA_ERROR_INVALID_VALUE;
	fk_uuid(&fk.queues[device].device, (unsigned char *)uuid->bytes);
	return CUDA_SUCCESS;
}

FK_API cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) { return cuDeviceGetUuid(uuid, device); }

FK_API cuDeviceGetLuid(char *luid, unsigned int *mask, CUdevice device) {
	FK_TRY(fk_device_ok(device));
	return luid && mask ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE; // Windows only
}

FK_API cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
	FK_TRY(fk_device_ok(device));
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	*bytes = fk.queues[device].device.file->terms.memory;
	return CUDA_SUCCESS;
}

FK_API cuDeviceTotalMem(unsigned int *bytes, CUdevice device) {
	size_t all;
	FK_TRY(cuDeviceTotalMem_v2(&all, device));
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	*bytes = all > UINT32_MAX ? UINT32_MAX : (unsigned int)all;
	return CUDA_SUCCESS;
}

FK_API cuDeviceGetPCIBusId(char *id, int len, CUdevice device) {
	FK_TRY(fk_device_ok(device));
	if (!id || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(id, (size_t)len, "0000:%02X:00.0", BUS(device));
	return CUDA_SUCCESS;
}

FK_API cuDeviceGetByPCIBusId(CUdevice *device, const char *id) {
	FK_TRY(fk_usable());
	unsigned domain, bus, slot;
	if (!device || !id || sscanf(id, "%x:%x:%x", &domain, &bus, &slot) < 3)
		return CUDA_ERROR_INVALID_VALUE;
	for (uint32_t i = 0; i < fk.count; i++)
		if (!domain && !slot && bus == BUS(i)) {
			*device = (CUdevice)i;
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_INVALID_DEVICE;
}

// attributes are CUdevice_attribute values of a mid-size GPU of compute capability 9.0; what is
// missing is 0: not supported.
static const int attributes[][2] = {
	// threads of a block, blocks of a grid
	{1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 2147483647}, {6, 65535}, {7, 65535},
	// shared and constant memory, warp
	{8, 49152}, {9, 65536}, {10, 32}, {11, 2147483647}, {12, 65536}, {13, 1500000}, {14, 512},
	{15, 1}, {19, 1}, {21, 131072}, {22, 131072}, {23, 65536}, {24, 16384}, {25, 16384},
	{26, 16384},
	// 31: concurrent
	{30, 512}, {31, 1}, {33, 0}, {34, 0}, {36, 2000000}, {37, 4096}, {38, 33554432}, {39, 2048},
	{40, 1}, {41, 1},
	// 75, 76: capability
	{51, 32}, {75, 9}, {76, 0}, {78, 1}, {79, 1}, {80, 1}, {81, 233472}, {82, 65536}, {83, 1},
	{86, 0}, {87, 2},
	// 102: VMM
	{89, 1}, {90, 1}, {91, 1}, {95, 1}, {97, 232448}, {99, 1}, {102, 1}, {103, 1}, {106, 32},
	{108, 0}, {111, 1024},
	// 115: memory pools
	{115, 1}, {119, 1}, {120, 1}, {122, 1}, {123, 1}, {125, 1}, {126, 4}, {132, 0},
};

FK_API cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
	FK_TRY(fk_device_ok(device));
	if (!value || attribute <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	*value = attribute == 33 ? (int)BUS(device) : 0;
	for (size_t i = 0; i < sizeof attributes / sizeof *attributes && attribute != 33; i++)
		if (attributes[i][0] == attribute)
			*value = attributes[i][1];
	// With a percentage for each context it is that of the current one.
	CUcontext c;
	if (attribute == 16)
		*value = (int)(fk.per_context && !fk_current(&c) ? c->width : fk.width);
	if (attribute == 133) // contexts are shared by MPS
		*value = fk.server != 0;
	return CUDA_SUCCESS;
}

FK_API cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
	FK_TRY(fk_device_ok(device));
	if (!major || !minor)
		return CUDA_ERROR_INVALID_VALUE;
	*major = 9, *minor = 0;
	return CUDA_SUCCESS;
}

FK_API cuDeviceCanAccessPeer(int *can, CUdevice a, CUdevice b) {
	FK_TRY(fk_device_ok(a));
	FK_TRY(fk_device_ok(b));
	if (!can)
		return CUDA_ERROR_INVALID_VALUE;
	*can = a != b;
	return CUDA_SUCCESS;
}

FK_API cuDeviceGetP2PAttribute(int *value, int attribute, CUdevice a, CUdevice b) {
	FK_TRY(fk_device_ok(a));
	FK_TRY(fk_device_ok(b));
	if (!value || a == b)
		return CUDA_ERROR_INVALID_VALUE;
	*value = attribute != 1; // 1: rank of the link's speed, 0 is the best
	return CUDA_SUCCESS;
}
