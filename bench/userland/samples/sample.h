// What the samples share. Each prints one line a call and value, so that two runs can be compared
// line by line. Lines that begin with "memory" depend on the device's size, and are compared with
// the cap.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>

#define SAY(call) (std::printf("%s: %s\n", #call, cudaGetErrorName(call)), std::fflush(stdout))

// MUST is for what the rest of the sample stands on.
#define MUST(call) \
	do { \
		cudaError_t result_ = (call); \
		std::printf("%s: %s\n", #call, cudaGetErrorName(result_)); \
		std::fflush(stdout); \
		if (result_) \
			return 1; \
	} while (0)

// HOLDS is for what is so on every device.
#define HOLDS(condition) \
	do { \
		if (!(condition)) { \
			std::printf("%s does not hold\n", #condition); \
			return 1; \
		} \
	} while (0)

#define SHOW(value) (std::printf("%s = %lld\n", #value, (long long)(value)), std::fflush(stdout))

// left is the memory that is free.
inline size_t left() {
	size_t free_bytes = 0, total = 0;
	cudaMemGetInfo(&free_bytes, &total);
	return free_bytes;
}

// as_before tells whether as much memory is free as was before, but for what drivers take by
// themselves: for code that is loaded when it is first used, in granules.
inline bool as_before(size_t before) { return before < left() + (6 << 20); }

// filled tells whether all bytes have the value.
inline bool filled(const void *p, unsigned char value, size_t bytes) {
	for (size_t i = 0; i < bytes; i++)
		if (static_cast<const unsigned char *>(p)[i] != value)
			return false;
	return true;
}
