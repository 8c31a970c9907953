// The limits of control groups: what the processes of a group hold of the device together, at most.
// All groups from a process's own up to the root hold it, as with the kernel's dmem controller
// ("MPS v3 Memory Partitioning" in NVIDIA's guide to MPS). Nothing is evicted for a soft limit.
#include "model.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void fk_group(char path[FK_GROUP]) {
	const char *told = getenv("WEIR_FAKE_CGROUP");
	path[0] = 0;
	if (told) {
		snprintf(path, FK_GROUP, "%s", told);
		return;
	}
	char line[FK_GROUP];
	FILE *f = fopen("/proc/self/cgroup", "re");
	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, "0::", 3)) {
			line[strcspn(line, "\n")] = 0;
			snprintf(path, FK_GROUP, "/sys/fs/cgroup%.*s", FK_GROUP - 16, line + 3);
		}
	if (f)
		fclose(f);
}

// inside reports whether a group is another, or below it.
static bool inside(const char *group, const char *of) {
	size_t n = strlen(of);
	return n && !strncmp(group, of, n) && (!group[n] || group[n] == '/');
}

uint64_t fk_group_used(const fk_device *d, const char *group) {
	uint64_t sum = 0;
	for (uint32_t i = 0; i < d->file->high; i++) {
		const fk_slot *s = &d->file->slots[i];
		if (atomic_load(&s->pid) && inside(s->group, group))
			sum += atomic_load(&s->memory) + atomic_load(&s->context_memory) + fk_adopted(d, i);
	}
	return sum;
}

// stands reports whether a limit's group is there still: one that is removed takes its limit along.
static bool stands(const fk_limit *l) {
	struct stat st;
	return l->group[0] && !stat(l->group, &st) && st.st_ino == l->inode;
}

uint64_t fk_room(const fk_device *d, uint64_t *hard) {
	const fk_slot *s = &d->file->slots[d->slot];
	uint64_t room = FK_NEVER;
	*hard = FK_NEVER;
	for (uint32_t i = 0; i < FK_LIMITS; i++) {
		const fk_limit *l = &d->file->limits[i];
		if (!inside(s->group, l->group) || !stands(l))
			continue;
		uint64_t used = fk_group_used(d, l->group), left = l->hard > used ? l->hard - used : 0;
		room = left < room ? left : room;
		*hard = l->hard < *hard ? l->hard : *hard;
	}
	return room;
}

fk_limit *fk_limit_of(fk_device *d, const char *group) {
	for (uint32_t i = 0; i < FK_LIMITS; i++) {
		fk_limit *l = &d->file->limits[i];
		if (!strcmp(l->group, group) && stands(l))
			return l;
	}
	return NULL;
}

bool fk_set_limit(fk_device *d, const char *group, uint64_t soft, uint64_t hard) {
	struct stat st;
	fk_limit *l = fk_limit_of(d, group);
	if (strlen(group) >= FK_GROUP || stat(group, &st) || !S_ISDIR(st.st_mode))
		return false;
	for (uint32_t i = 0; !l && i < FK_LIMITS; i++)
		if (!stands(&d->file->limits[i]))
			l = &d->file->limits[i];
	if (!l)
		return false;
	l->group[0] = 0; // no limit of half a group
	l->soft = soft, l->hard = hard, l->inode = st.st_ino;
	if (soft || hard != FK_NEVER)
		memcpy(l->group, group, strlen(group) + 1);
	return true;
}
