// The linker of device code. Nothing of a program runs here, so what linking has to give is one
// image that names all kernels and variables of its inputs: one input's own, or the PTX of several
// one after the other. A link of several inputs that are not all PTX is refused.
#include "image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CUBIN = 0, PTX = 1, FATBINARY = 2, OBJECT = 3 }; // CUjitInputType

struct CUlinkState_st {
	uint32_t kind;
	unsigned inputs;
	bool text, complete; // text: all inputs are PTX
	unsigned char *data;
	size_t bytes; // a zero follows them
};

static CUresult append(CUlinkState s, const fk_image *image) {
	if (s->inputs && !(s->text && image->text))
		return CUDA_ERROR_NOT_SUPPORTED;
	unsigned char *all = realloc(s->data, s->bytes + image->bytes + 2);
	if (!all)
		return CUDA_ERROR_OUT_OF_MEMORY;
	s->data = all;
	memcpy(all + s->bytes, image->data, image->bytes);
	s->bytes += image->bytes;
	if (image->text)
		all[s->bytes++] = '\n';
	all[s->bytes] = 0;
	s->text = image->text;
	s->inputs++;
	return CUDA_SUCCESS;
}

FK_API cuLinkCreate_v2(unsigned int count, int *options, void **values, CUlinkState *out) {
	(void)options, (void)values;
	CUcontext c;
	FK_TRY(fk_current(&c));
	if (!out || (count && !options))
		return CUDA_ERROR_INVALID_VALUE;
	CUlinkState s = calloc(1, sizeof *s);
	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	s->kind = FK_LINK;
	*out = s;
	return CUDA_SUCCESS;
}

FK_API cuLinkAddData_v2(CUlinkState s, int type, void *data, size_t bytes, const char *name,
	unsigned int count, int *options, void **values) {
	(void)name, (void)count, (void)options, (void)values;
	FK_TRY(fk_usable());
	if (!FK_IS(s, FK_LINK) || s->complete)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!data || bytes < 4 || type < CUBIN)
		return CUDA_ERROR_INVALID_VALUE;
	if (type > OBJECT) // archives of objects, and intermediate code
		return CUDA_ERROR_NOT_SUPPORTED;
	fk_image image;
	if (type == PTX)
		image = (fk_image){.data = data, .bytes = strnlen(data, bytes), .text = true};
	else
		FK_TRY(fk_image_of(data, &image));
	CUresult r = image.data ? append(s, &image) : CUDA_ERROR_INVALID_IMAGE;
	free(image.owned);
	return r;
}

FK_API cuLinkCreate(unsigned int count, int *options, void **values, CUlinkState *out) {
	return cuLinkCreate_v2(count, options, values, out);
}

FK_API cuLinkAddData(CUlinkState s, int type, void *data, size_t bytes, const char *name,
	unsigned int count, int *options, void **values) {
	return cuLinkAddData_v2(s, type, data, bytes, name, count, options, values);
}

FK_API cuLinkAddFile_v2(CUlinkState s, int type, const char *path, unsigned int count, int *options,
	void **values) {
	FK_TRY(fk_usable());
	char *image;
	size_t bytes;
	FK_TRY(fk_read_file(path, &image, &bytes));
	CUresult r = cuLinkAddData_v2(s, type, image, bytes, path, count, options, values);
	free(image);
	return r;
}

FK_API cuLinkAddFile(CUlinkState s, int type, const char *path, unsigned int count, int *options,
	void **values) {
	return cuLinkAddFile_v2(s, type, path, count, options, values);
}

FK_API cuLinkComplete(CUlinkState s, void **image, size_t *bytes) {
	FK_TRY(fk_usable());
	if (!FK_IS(s, FK_LINK))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!image || !s->inputs)
		return CUDA_ERROR_INVALID_VALUE;
	s->complete = true;
	*image = s->data;
	if (bytes)
		*bytes = s->bytes;
	return CUDA_SUCCESS;
}

FK_API cuLinkDestroy(CUlinkState s) {
	FK_TRY(fk_usable());
	if (!FK_IS(s, FK_LINK))
		return CUDA_ERROR_INVALID_HANDLE;
	s->kind = 0;
	free(s->data);
	free(s);
	return CUDA_SUCCESS;
}
