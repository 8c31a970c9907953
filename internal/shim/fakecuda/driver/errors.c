// Names of results.
#include "internal.h"

FK_API cuGetErrorName(CUresult result, const char **name) {
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	switch (result) {
#define FK_NAMED(n, value) \
	case CUDA_##n: \
		*name = "CUDA_" #n; \
		return CUDA_SUCCESS;
		FK_RESULTS(FK_NAMED)
	}
	*name = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

// The text names the fake, so that no log of it passes for a real one.
FK_API cuGetErrorString(CUresult result, const char **text) {
	if (!text)
		return CUDA_ERROR_INVALID_VALUE;
	switch (result) {
#define FK_TEXT(n, value) \
	case CUDA_##n: \
		*text = "weir fake GPU: " #n; \
		return CUDA_SUCCESS;
		FK_RESULTS(FK_TEXT)
	}
	*text = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}
