// Values that a library keeps for each context.
#include "export.h"

#include <stdlib.h>

typedef struct value {
	CUcontext context;
	void *key, *value;
	fk_storage_end end;
	struct value *next;
} value;

static value *values; // guarded by fk.lock

static CUresult resolve(CUcontext *c) {
	if (!*c)
		FK_TRY(fk_current(c));
	*c = fk_root(*c);
	return CUDA_SUCCESS;
}

static value **find(CUcontext c, const void *key) {
	value **v = &values;
	while (*v && ((*v)->context != c || (*v)->key != key))
		v = &(*v)->next;
	return v;
}

CUresult fk_storage_put(CUcontext c, void *key, void *data, fk_storage_end end) {
	FK_TRY(resolve(&c));
	fk_enter();
	value **v = find(c, key);
	if (!*v)
		*v = calloc(1, sizeof **v);
	if (!*v)
		return fk_leave(CUDA_ERROR_OUT_OF_MEMORY);
	(*v)->context = c, (*v)->key = key, (*v)->value = data, (*v)->end = end;
	return fk_leave(CUDA_SUCCESS);
}

CUresult fk_storage_delete(CUcontext c, void *key) {
	FK_TRY(resolve(&c));
	fk_enter();
	value **v = find(c, key), *gone = *v;
	if (gone)
		*v = gone->next;
	free(gone);
	return fk_leave(gone ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

CUresult fk_storage_get(void **out, CUcontext c, void *key) {
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	FK_TRY(resolve(&c));
	fk_enter();
	value *v = *find(c, key);
	if (v)
		*out = v->value;
	return fk_leave(v ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

void fk_storage_of_context(CUcontext c) {
	for (;;) {
		fk_enter();
		value **v = &values;
		while (*v && (*v)->context != c)
			v = &(*v)->next;
		value *gone = *v;
		if (gone)
			*v = gone->next;
		fk_leave(0);
		if (!gone)
			return;
		if (gone->end)
			gone->end(c, gone->key, gone->value);
		free(gone);
	}
}
