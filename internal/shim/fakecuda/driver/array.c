// Arrays and mipmapped arrays: memory that has a shape and no address. An array charges width x
// height x depth x bytes of an element; a mipmapped one the sum of its levels.
#include "memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

struct CUarray_st {
	uint32_t kind;
	bool level; // of a mipmapped array, which holds the memory
	CUDA_ARRAY3D_DESCRIPTOR shape;
	CUdevice device;
	CUcontext context; // with which it goes
	struct CUarray_st *next;
	fk_hold hold;
	fk_store *store; // row after row, from base on
	uint64_t base;
};

struct CUmipmappedArray_st {
	uint32_t kind, levels;
	CUdevice device;
	CUcontext context;
	struct CUmipmappedArray_st *next;
	uint64_t bytes; // 0: of memory that is another's
	fk_hold hold;
	fk_store *store; // level after level
	struct CUarray_st level[16];
};

static CUarray arrays;
static CUmipmappedArray mipmaps;

static uint64_t element(int format) {
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 1;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 4;
	default:
		return 0;
	}
}

// bytes is the size of an array, 0 if there is no such array. A height or depth of 0 means one
// dimension less.
static uint64_t bytes(const CUDA_ARRAY3D_DESCRIPTOR *d) {
	uint64_t unit = element(d->Format) * d->NumChannels, h = d->Height ? d->Height : 1,
			 z = d->Depth ? d->Depth : 1;
	bool right = (d->NumChannels == 1 || d->NumChannels == 2 || d->NumChannels == 4) &&
		d->Width <= 131072 && h <= 65536 && z <= 16384;
	return right ? unit * d->Width * h * z : 0;
}

static CUresult make(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *d) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	FK_TRY(fk_unsafe());
	uint64_t n = out && d ? bytes(d) : 0;
	if (!n)
		return CUDA_ERROR_INVALID_VALUE;
	CUarray a = calloc(1, sizeof *a);
	if (!a)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*a = (struct CUarray_st){.kind = FK_ARRAY, .shape = *d, .device = c->device, .context = c};
	fk_enter();
	CUresult r = fk_hold_memory(c->device, n, &a->hold);
	if (!r && !(a->store = fk_store_new(n))) {
		fk_drop_memory(c->device, &a->hold);
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (r) {
		free(a);
	} else {
		a->next = arrays;
		*out = arrays = a;
	}
	return fk_leave(r);
}

CUresult fk_array_side(CUarray a, size_t x, size_t y, size_t z, fk_motion *m, fk_side *side) {
	if (!FK_IS(a, FK_ARRAY))
		return CUDA_ERROR_INVALID_HANDLE;
	const CUDA_ARRAY3D_DESCRIPTOR *d = &a->shape;
	uint64_t row = element(d->Format) * d->NumChannels * d->Width, h = d->Height ? d->Height : 1,
			 planes = d->Depth ? d->Depth : 1;
	if (x > row || m->width > row - x || y > h || m->height > h - y || z > planes ||
		m->depth > planes - z)
		return CUDA_ERROR_INVALID_VALUE;
	*side = (fk_side){.address = a->base + z * row * h + y * row + x,
		.store = a->store,
		.pitch = row,
		.slice = row * h};
	return CUDA_SUCCESS;
}

FK_API cuArray3DCreate_v2(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *d) { return make(out, d); }

FK_API cuArrayCreate_v2(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *d) {
	if (!d)
		return CUDA_ERROR_INVALID_VALUE;
	CUDA_ARRAY3D_DESCRIPTOR deep = {
		.Width = d->Width, .Height = d->Height, .Format = d->Format, .NumChannels = d->NumChannels};
	return make(out, &deep);
}

// Before CUDA 3.2 the sizes had 32 bits.
FK_API cuArray3DCreate(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR_v1 *d) {
	if (!d)
		return CUDA_ERROR_INVALID_VALUE;
	CUDA_ARRAY3D_DESCRIPTOR deep = {.Width = d->Width,
		.Height = d->Height,
		.Depth = d->Depth,
		.Format = d->Format,
		.NumChannels = d->NumChannels,
		.Flags = d->Flags};
	return make(out, &deep);
}

FK_API cuArrayCreate(CUarray *out, const CUDA_ARRAY_DESCRIPTOR_v1 *d) {
	if (!d)
		return CUDA_ERROR_INVALID_VALUE;
	CUDA_ARRAY3D_DESCRIPTOR deep = {
		.Width = d->Width, .Height = d->Height, .Format = d->Format, .NumChannels = d->NumChannels};
	return make(out, &deep);
}

FK_API cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *d, CUarray a) {
	FK_TRY(fk_usable());
	if (!d || !FK_IS(a, FK_ARRAY))
		return d ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
	*d = a->shape;
	return CUDA_SUCCESS;
}

FK_API cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *d, CUarray a) {
	CUDA_ARRAY3D_DESCRIPTOR deep;
	FK_TRY(cuArray3DGetDescriptor_v2(&deep, a));
	if (!d)
		return CUDA_ERROR_INVALID_VALUE;
	*d = (CUDA_ARRAY_DESCRIPTOR){.Width = deep.Width,
		.Height = deep.Height,
		.Format = deep.Format,
		.NumChannels = deep.NumChannels};
	return CUDA_SUCCESS;
}

FK_API cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *r, CUarray a, CUdevice d) {
	FK_TRY(fk_device_ok(d));
	if (!r || !FK_IS(a, FK_ARRAY))
		return CUDA_ERROR_INVALID_VALUE;
	*r = (CUDA_ARRAY_MEMORY_REQUIREMENTS){.size = bytes(&a->shape), .alignment = 512};
	return CUDA_SUCCESS;
}

static void drop_array(CUarray a) {
	for (CUarray *at = &arrays; *at; at = &(*at)->next)
		if (*at == a) {
			*at = a->next;
			break;
		}
	fk_drop_memory(a->device, &a->hold);
	fk_unkeep(a->store);
	a->kind = 0;
	free(a);
}

static void drop_mipmap(CUmipmappedArray m) {
	for (CUmipmappedArray *at = &mipmaps; *at; at = &(*at)->next)
		if (*at == m) {
			*at = m->next;
			break;
		}
	fk_drop_memory(m->device, &m->hold);
	fk_unkeep(m->store);
	m->kind = 0;
	free(m);
}

void fk_arrays_of_context(CUcontext c) {
	for (CUarray a = arrays, next; a; a = next) {
		next = a->next;
		if (fk_root(a->context) == c)
			drop_array(a);
	}
	for (CUmipmappedArray m = mipmaps, next; m; m = next) {
		next = m->next;
		if (m->context && fk_root(m->context) == c)
			drop_mipmap(m);
	}
}

FK_API cuArrayDestroy(CUarray a) {
	FK_TRY(fk_usable());
	if (!FK_IS(a, FK_ARRAY) || a->level)
		return CUDA_ERROR_INVALID_HANDLE;
	fk_enter();
	drop_array(a);
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuMipmappedArrayCreate(
	CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	FK_TRY(fk_unsafe());
	if (!out || !d || !levels || levels > 16 || !bytes(d))
		return CUDA_ERROR_INVALID_VALUE;
	CUmipmappedArray m = calloc(1, sizeof *m);
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->kind = FK_MIPMAP, m->levels = levels, m->device = c->device, m->context = c;
	CUDA_ARRAY3D_DESCRIPTOR at = *d;
	for (unsigned int i = 0; i < levels; i++) {
		m->level[i] = (struct CUarray_st){.kind = FK_ARRAY,
			.level = true,
			.shape = at,
			.device = c->device,
			.base = m->bytes};
		m->bytes += bytes(&at);
		at.Width = at.Width > 1 ? at.Width / 2 : 1;
		at.Height = at.Height > 1 ? at.Height / 2 : at.Height;
		at.Depth = at.Depth > 1 ? at.Depth / 2 : at.Depth;
	}
	fk_enter();
	CUresult r = fk_hold_memory(c->device, m->bytes, &m->hold);
	if (!r && !(m->store = fk_store_new(m->bytes))) {
		fk_drop_memory(c->device, &m->hold);
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	for (unsigned int i = 0; i < levels; i++)
		m->level[i].store = m->store;
	if (r) {
		free(m);
	} else {
		m->next = mipmaps;
		*out = mipmaps = m;
	}
	return fk_leave(r);
}

FK_API cuMipmappedArrayGetLevel(CUarray *out, CUmipmappedArray m, unsigned int level) {
	FK_TRY(fk_usable());
	if (!out || !FK_IS(m, FK_MIPMAP) || level >= m->levels)
		return CUDA_ERROR_INVALID_VALUE;
	*out = &m->level[level];
	return CUDA_SUCCESS;
}

FK_API cuMipmappedArrayGetMemoryRequirements(
	CUDA_ARRAY_MEMORY_REQUIREMENTS *r, CUmipmappedArray m, CUdevice d) {
	FK_TRY(fk_device_ok(d));
	if (!r || !FK_IS(m, FK_MIPMAP))
		return CUDA_ERROR_INVALID_VALUE;
	*r = (CUDA_ARRAY_MEMORY_REQUIREMENTS){.size = m->bytes, .alignment = 512};
	return CUDA_SUCCESS;
}

FK_API cuMipmappedArrayDestroy(CUmipmappedArray m) {
	FK_TRY(fk_usable());
	if (!FK_IS(m, FK_MIPMAP))
		return CUDA_ERROR_INVALID_HANDLE;
	fk_enter();
	drop_mipmap(m);
	return fk_leave(CUDA_SUCCESS);
}

// External memory: of another interface (Vulkan, a socket's other end), which a file descriptor
// names and this import owns. Nobody else on the fake device has charged it, so the import does,
// until it or its context is destroyed. Its contents are those of the file, if that is as large.
struct CUextMemory_st {
	uint32_t kind;
	CUdevice device;
	CUcontext context;
	uint64_t bytes;
	fk_store *store;
	CUexternalMemory next;
};

static CUexternalMemory imports;

static fk_store *contents(int fd, uint64_t bytes) {
	struct stat st;
	bool file = !fstat(fd, &st) && S_ISREG(st.st_mode) && (uint64_t)st.st_size >= bytes &&
		(fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR;
	return file ? fk_store_file(fcntl(fd, F_DUPFD_CLOEXEC, 0), 0, bytes) : fk_store_new(bytes);
}

FK_API cuImportExternalMemory(CUexternalMemory *out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *d) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	FK_TRY(fk_unsafe());
	if (!out || !d || d->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD || !d->size ||
		d->size > UINT64_C(1) << 46)
		return CUDA_ERROR_INVALID_VALUE;
	CUexternalMemory m = calloc(1, sizeof *m);
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*m = (struct CUextMemory_st){
		.kind = FK_EXTERNAL, .device = c->device, .context = c, .bytes = d->size};
	fk_enter();
	m->store = contents(d->handle.fd, d->size);
	CUresult r = m->store ? fk_charge(c->device, m->bytes) : CUDA_ERROR_OUT_OF_MEMORY;
	if (r) {
		fk_unkeep(m->store);
		free(m);
		return fk_leave(r);
	}
	fk_share(&fk.queues[c->device]);
	m->next = imports;
	*out = imports = m;
	return fk_leave(CUDA_SUCCESS);
}

// drop_import gives an import back; the lock is held.
static void drop_import(CUexternalMemory m) {
	CUexternalMemory *at = &imports;
	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	fk_refund(m->device, m->bytes);
	fk_unkeep(m->store);
	m->kind = 0;
	free(m);
}

void fk_imports_of_context(CUcontext c) {
	for (CUexternalMemory m = imports, next; m; m = next) {
		next = m->next;
		if (fk_root(m->context) == c)
			drop_import(m);
	}
}

FK_API cuExternalMemoryGetMappedBuffer(
	CUdeviceptr *out, CUexternalMemory m, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *d) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	if (!out || !FK_IS(m, FK_EXTERNAL) || !d || !d->size || d->offset > m->bytes ||
		d->size > m->bytes - d->offset)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	CUdeviceptr at = fk_place(d->size, 512);
	fk_allocation a = {.address = at,
		.bytes = d->size,
		.origin = FK_IMPORTED,
		.device = m->device,
		.context = c,
		.store = fk_keep(m->store),
		.within = d->offset};
	if (!at || !fk_insert(a))
		return fk_leave(CUDA_ERROR_OUT_OF_MEMORY);
	*out = at;
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray *out, CUexternalMemory m,
	const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *d) {
	FK_TRY(fk_usable());
	if (!out || !FK_IS(m, FK_EXTERNAL) || !d || !d->numLevels || d->numLevels > 16 ||
		!bytes(&d->arrayDesc) || bytes(&d->arrayDesc) > m->bytes)
		return CUDA_ERROR_INVALID_VALUE;
	CUmipmappedArray a = calloc(1, sizeof *a);
	if (!a)
		return CUDA_ERROR_OUT_OF_MEMORY;
	a->kind = FK_MIPMAP, a->levels = d->numLevels, a->device = m->device;
	a->store = fk_keep(m->store);
	for (unsigned int i = 0; i < d->numLevels; i++)
		a->level[i] = (struct CUarray_st){.kind = FK_ARRAY,
			.level = true,
			.shape = d->arrayDesc,
			.device = m->device,
			.store = m->store};
	*out = a;
	return CUDA_SUCCESS;
}

FK_API cuDestroyExternalMemory(CUexternalMemory m) {
	FK_TRY(fk_usable());
	if (!FK_IS(m, FK_EXTERNAL))
		return CUDA_ERROR_INVALID_HANDLE;
	fk_enter();
	drop_import(m);
	return fk_leave(CUDA_SUCCESS);
}
