/* Asks NVML for the memory of the first device, as monitoring programs do. */
#include <dlfcn.h>
#include <stdio.h>

int main(void)
{
	struct { unsigned long long total, free, used; } a = {0};
	struct { unsigned version; unsigned long long total, reserved, free, used; } b = {0};
	void *lib = dlopen("libnvidia-ml.so.1", RTLD_NOW), *device;
	int (*init)(void), (*by_index)(unsigned, void **), (*info)(void *, void *),
		(*info2)(void *, void *);
	if (!lib)
		return 4;
	*(void **)&init = dlsym(lib, "nvmlInit_v2");
	*(void **)&by_index = dlsym(lib, "nvmlDeviceGetHandleByIndex_v2");
	*(void **)&info = dlsym(lib, "nvmlDeviceGetMemoryInfo");
	*(void **)&info2 = dlsym(lib, "nvmlDeviceGetMemoryInfo_v2");
	if (init() || by_index(0, &device))
		return 5;
	b.version = (unsigned)sizeof b | 2u << 24;
	int r = info(device, &a), r2 = info2(device, &b);
	printf("v1 %d total %llu free %llu used %llu\n", r, a.total, a.free, a.used);
	printf("v2 %d total %llu free %llu used %llu\n", r2, b.total, b.free, b.used);
	return 0;
}
