// By which number a process knows one of another namespace of pids: the driver tells each its own.
#include "model.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static uint64_t inode(const char *path) {
	struct stat st;
	return stat(path, &st) ? 0 : (uint64_t)st.st_ino;
}

uint64_t fk_pids(void) { return inode("/proc/self/ns/pid"); }

// innermost is a process's number in its own namespace, the last of those that the kernel lists
// from here inwards (proc(5), NSpid); 0: it has ended.
static uint32_t innermost(const char *process) {
	char path[300], line[256];
	uint32_t pid = 0;
	snprintf(path, sizeof path, "/proc/%s/status", process);
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, "NSpid:", 6))
			for (char *save, *p = strtok_r(line + 6, " \t\n", &save); p;
				 p = strtok_r(NULL, " \t\n", &save))
				pid = (uint32_t)strtoul(p, NULL, 10);
	if (f)
		fclose(f);
	return pid;
}

// find looks through all processes that can be seen from here.
static uint32_t find(uint64_t pids, uint32_t pid) {
	char path[300];
	uint32_t found = 0;
	DIR *all = opendir("/proc");
	for (struct dirent *e; all && !found && (e = readdir(all));) {
		uint32_t n = (uint32_t)strtoul(e->d_name, NULL, 10);
		snprintf(path, sizeof path, "/proc/%s/ns/pid", e->d_name);
		if (n && inode(path) == pids && innermost(e->d_name) == pid)
			found = n;
	}
	if (all)
		closedir(all);
	return found;
}

uint32_t fk_pid(fk_device *d, uint32_t slot) {
	static struct {
		uint64_t pids, born_ns;
		uint32_t pid, here;
	} known[FK_DEVICES][FK_PROCS];
	const fk_slot *s = &d->file->slots[slot];
	uint32_t pid = atomic_load(&s->pid), ordinal = d->file->terms.ordinal % FK_DEVICES;
	static uint64_t own;
	if (!own)
		own = fk_pids();
	if (!s->pids || s->pids == own)
		return pid;
	if (known[ordinal][slot].here && known[ordinal][slot].pids == s->pids &&
		known[ordinal][slot].born_ns == s->born_ns && known[ordinal][slot].pid == pid)
		return known[ordinal][slot].here;
	known[ordinal][slot].pids = s->pids, known[ordinal][slot].born_ns = s->born_ns;
	known[ordinal][slot].pid = pid;
	return known[ordinal][slot].here = find(s->pids, pid);
}
