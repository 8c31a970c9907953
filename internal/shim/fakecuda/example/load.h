// How the programs come by the driver: dlopen and cuGetProcAddress, as PyTorch's libraries do.
#ifndef WEIR_FAKE_LOAD_H
#define WEIR_FAKE_LOAD_H

#include "../fakecuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

// cu_symbol is one call, found by name in libcuda.so.1. A call that is missing ends the program.
static inline void *cu_symbol(const char *name) {
	static void *library;
	if (!library && !(library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL))) {
		fprintf(stderr, "no NVIDIA driver: %s\n", dlerror());
		exit(2);
	}
	void *call = dlsym(library, name);
	if (!call) {
		fprintf(stderr, "the driver has no %s\n", name);
		exit(2);
	}
	return call;
}

// CU is the call itself: CU(cuInit)(0). It looks the name up once at each place.
#define CU(name) \
	(*({ \
		static __typeof__(&name) call; \
		__typeof__(&name) found = __atomic_load_n(&call, __ATOMIC_RELAXED); \
		if (!found) { \
			found = (__typeof__(&name))cu_symbol(#name); \
			__atomic_store_n(&call, found, __ATOMIC_RELAXED); \
		} \
		found; \
	}))

// CHECK ends the program when a call fails.
#define CHECK(expression) \
	do { \
		CUresult result_ = (expression); \
		if (result_) { \
			const char *name_ = "?"; \
			CU(cuGetErrorName)(result_, &name_); \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #expression, \
				name_ ? name_ : "unknown error"); \
			exit(1); \
		} \
	} while (0)

#endif
