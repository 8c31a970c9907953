// Finding calls by name.
#ifndef WEIR_FAKE_TABLE_H
#define WEIR_FAKE_TABLE_H

// fk_lookup is the newest form of a call that a program compiled for the CUDA version knows, 0 for
// none; *known says whether there is a call of the name at all.
void (*fk_lookup(const char *name, int version, int per_thread, int *known))(void);

#endif
