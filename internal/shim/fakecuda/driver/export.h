// What lies behind the tables of cuGetExportTable (export.c).
#ifndef WEIR_FAKE_EXPORT_H
#define WEIR_FAKE_EXPORT_H

#include "internal.h"

// Values that a library keeps for a context by a key of its own (storage.c). NULL is the current
// context. The end function runs when the context is destroyed.
typedef void (*fk_storage_end)(CUcontext c, void *key, void *value);
CUresult fk_storage_put(CUcontext c, void *key, void *value, fk_storage_end end);
CUresult fk_storage_delete(CUcontext c, void *key);
CUresult fk_storage_get(void **value, CUcontext c, void *key);

// fk_integrity answers how CUDA's runtime makes sure that both sides mean the same driver
// (integrity.c). It hashes the addresses of two tables.
CUresult fk_integrity(uint32_t version, uint64_t seconds, uint64_t result[2]);
const void *fk_cudart_table(void);
const void *fk_integrity_table(void);

#endif
