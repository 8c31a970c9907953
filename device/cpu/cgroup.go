package cpu

import (
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Control groups come in two versions with files of different names. A machine may mount both, each
// controller in one of them. A process is bound by the limits of its own group and of all groups
// above that, up to the root. In a container the paths of /proc/self/cgroup may lead outside of
// what is mounted; walking up then ends at the mount point, which is the container's own group.
//
// Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst,
// Documentation/scheduler/sched-bwc.rst.

// cpuQuota returns the processor time per time that the groups grant.
func (h host) cpuQuota() (cores float64, ok bool) {
	cores = math.Inf(1)
	for _, dir := range h.groups("cpu") {
		quota, period := h.read(path.Join(dir, "cpu.cfs_quota_us")), h.read(
			path.Join(dir, "cpu.cfs_period_us"))
		if f := strings.Fields(h.read(path.Join(dir, "cpu.max"))); len(f) == 2 {
			quota, period = f[0], f[1]
		}
		q, errQ := strconv.ParseFloat(strings.TrimSpace(quota), 64)
		p, errP := strconv.ParseFloat(strings.TrimSpace(period), 64)
		// An absent quota reads "max" in version 2 and -1 in version 1.
		if errQ == nil && errP == nil && q > 0 && p > 0 {
			cores = min(cores, q/p)
		}
	}
	return cores, !math.IsInf(cores, 1)
}

// memoryLimit returns the bytes that the groups allow.
func (h host) memoryLimit() (bytes int64, ok bool) {
	// Version 1 writes an absent limit as the largest number of whole pages.
	const unlimited = math.MaxInt64 &^ (1<<16 - 1)
	bytes = unlimited
	for _, dir := range h.groups("memory") {
		for _, name := range []string{"memory.max", "memory.limit_in_bytes"} {
			n, err := strconv.ParseInt(strings.TrimSpace(h.read(path.Join(dir, name))), 10, 64)
			if err == nil && n > 0 {
				bytes = min(bytes, n)
			}
		}
	}
	return bytes, bytes < unlimited
}

// groups returns the directories of the groups that bind the process for a controller, in both
// versions.
func (h host) groups(controller string) (dirs []string) {
	membership := h.memberships(controller)
	for line := range strings.Lines(h.read("proc/self/mountinfo")) {
		// Fields, see proc_pid_mountinfo(5): 3 is the root of the mount within its file system, 4
		// the mount point; after a lone "-" come the type, the source and the options.
		f := strings.Fields(line)
		dash := slices.Index(f, "-")
		if dash < 6 || len(f) < dash+4 {
			continue
		}
		key := ""
		switch kind, options := f[dash+1], strings.Split(f[dash+3], ","); {
		case kind == "cgroup2":
		case kind == "cgroup" && slices.Contains(options, controller):
			key = controller
		default:
			continue
		}
		own, ok := membership[key]
		if !ok {
			continue
		}
		dirs = append(dirs, upwards(f[4], within(f[3], own))...)
	}
	return dirs
}

// memberships maps "" to the process's group in version 2 and the controller's name to its group in
// version 1.
func (h host) memberships(controller string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(h.read("proc/self/cgroup")) {
		// hierarchy-ID:controller-list:path, see cgroups(7).
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) != 3 {
			continue
		}
		switch {
		case f[0] == "0" && f[1] == "":
			m[""] = f[2]
		case slices.Contains(strings.Split(f[1], ","), controller):
			m[controller] = f[2]
		}
	}
	return m
}

// within returns the part of a group's path below the root of its mount.
func within(root, group string) string {
	if root == "/" {
		return group
	}
	if rest, ok := strings.CutPrefix(group, root); ok && (rest == "" || rest[0] == '/') {
		return rest
	}
	return ""
}

// upwards returns the directories from mount/group up to mount, without the leading slash.
func upwards(mount, group string) (dirs []string) {
	mount = strings.TrimPrefix(path.Clean(mount), "/")
	// Cleaned as an absolute path, a group cannot lead above its mount.
	for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
		dirs = append(dirs, path.Join(mount, dir))
		if dir == "/" {
			return dirs
		}
	}
}
