// Device programs as NVIDIA's tools write them.
//
// An image that a program loads is a fat binary (fatbin.c), or what lies in one: a cubin, which is
// an ELF file (cubin.c), or PTX, a text (ptx.c). Nothing of it runs: what is read is what the
// driver's calls answer from, the kernels with their attributes and parameters, and the variables.
//
// None of the formats is documented. Field numbers are those that NVIDIA's own cuobjdump and
// readelf print for the files of nvcc; the magic words are in fatbinary_section.h of the toolkit.
#ifndef WEIR_FAKE_IMAGE_H
#define WEIR_FAKE_IMAGE_H

#include "internal.h"

enum { FK_ARCHITECTURE = 90 }; // 10 times the compute capability that devices claim

typedef struct fk_param {
	uint32_t offset, bytes;
} fk_param;

// fk_variable is a __device__, __constant__ or __managed__ variable. Those of a module lie in one
// block of device memory; a managed one has an allocation of its own.
typedef struct fk_variable {
	char *name;
	uint64_t offset, bytes; // within the block
	bool managed;
	unsigned char *content; // that it begins with, NULL: zeros
	CUdeviceptr address; // of a managed one, once it is allocated
} fk_variable;

// fk_placement is a module's block in one context. The context may be gone, and the block with it:
// the id, which is that of the allocation, says whether it is this one.
typedef struct fk_placement {
	CUcontext context;
	CUdeviceptr address;
	uint64_t id;
	struct fk_placement *next;
} fk_placement;

// fk_image is what to read: one cubin or PTX text. What lies compressed in a fat binary is owned.
typedef struct {
	const unsigned char *data;
	size_t bytes;
	bool text;
	unsigned char *owned; // to be freed, NULL if none
} fk_image;

// fk_image_of finds what the device runs in an image as programs hand it over; *out is all zero for
// a text that is no PTX, which is the stand-in's own kind of module.
CUresult fk_image_of(const void *image, fk_image *out);

// fk_cubin and fk_ptx fill a module's kernels and variables. On error the module is left for
// fk_module_free.
CUresult fk_cubin(struct CUmod_st *m, const fk_image *image);
CUresult fk_ptx(struct CUmod_st *m, const fk_image *image);

// fk_kernel adds a kernel with what holds for all; NULL when the host has no memory. The result is
// good until the next one is added. fk_variable_add likewise; it lays variables out in the block.
struct CUfunc_st *fk_kernel(struct CUmod_st *m, const char *name, size_t length);
fk_variable *fk_variable_add(
	struct CUmod_st *m, const char *name, size_t length, uint64_t bytes, uint64_t alignment);

// fk_limits settles the attributes that follow from others: how many threads a block may have.
void fk_limits(struct CUfunc_st *f);

// fk_kernel_time is how long kernels of real images take, by WEIR_FAKE_KERNEL_US.
void fk_kernel_time(uint64_t *least_ns, uint64_t *most_ns);

// fk_module_place gives the module's block in the current context, which takes device memory on
// first use as loading does. fk_module_drop gives back all blocks. fk_module_free frees what
// describes the module, but not itself. All are called with fk.lock held.
CUresult fk_module_place(struct CUmod_st *m, CUcontext c, CUdeviceptr *address);
void fk_module_drop(struct CUmod_st *m);
void fk_module_free(struct CUmod_st *m);

// fk_module_load makes a module of an image, or a library where the context is NULL. One that is
// read later must stay where it is: fk_module_read reads it, when something of it is asked for.
CUresult fk_module_load(CUmodule *out, const void *image, CUcontext c, bool later);
CUresult fk_module_read(struct CUmod_st *m);

// fk_lazy tells whether the device's profile loads functions when they are first launched.
bool fk_lazy(CUdevice d);

// fk_read_file reads a file whole, for the caller to free; what follows it is zero, as a text ends.
CUresult fk_read_file(const char *path, char **out, size_t *bytes);

// fk_missing tells a person what was asked for and is not there: a line in the file that
// WEIR_FAKE_MISSING names (export.c).
void fk_missing(const char *kind, const char *name, int number);

#endif
