package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// Control groups of version 2, which the driver limits the memory of: Linux,
// Documentation/admin-guide/cgroup-v2.rst, and cgroups(7). The driver wants them at /sys/fs/cgroup
// ("MPS v3 Memory Partitioning" in NVIDIA's guide to MPS).

// groups reads control groups.
type groups struct {
	root string // folder that holds proc and sys; empty: the machine's
}

// Bounds of what is read of one group and of one process's ancestors.
const (
	maxGroupProcesses = 1 << 14
	maxGroupFolders   = 1 << 10
	maxAncestors      = 256
)

const groupsMount = "/sys/fs/cgroup"

// missing is why there are no groups to limit; nil: there are.
func (g groups) missing() error {
	if _, err := os.Stat(g.root + groupsMount + "/cgroup.controllers"); err != nil {
		return fmt.Errorf("control groups of version 2 are not mounted at %s: boot with "+
			"systemd.unified_cgroup_hierarchy=1", groupsMount)
	}
	return nil
}

// of returns the folder of a process's group.
func (g groups) of(pid uint32) (string, error) {
	if pid == 0 {
		return "", errors.New("a process of it is outside of the agent's pid namespace, so that " +
			"its control group is not known")
	}
	text, err := os.ReadFile(g.proc(pid, "cgroup"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		// hierarchy-ID:controller-list:path
		if name, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			if name == "/" {
				return "", fmt.Errorf("process %d is in the root of all control groups", pid)
			}
			if path.Clean(name) != name || !strings.HasPrefix(name, "/") ||
				strings.HasPrefix(name, "/..") {
				return "", fmt.Errorf("the control group %s of process %d is outside of the "+
					"agent's", name, pid)
			}
			return g.root + groupsMount + name, nil
		}
	}
	return "", fmt.Errorf("process %d is in no control group of version 2", pid)
}

// id tells a group from one of the same name that is made later; zero if it is gone.
func (g groups) id(group string) pageID {
	f, err := os.Open(group)
	if err != nil {
		return pageID{}
	}
	defer f.Close()
	return idOf(f)
}

// foreign is why a group is not that of known processes alone, and of what they have started; nil:
// it is.
func (g groups) foreign(group string, known map[uint32]bool) error {
	seen, folders := 0, 0
	return filepath.WalkDir(group, func(dir string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !e.IsDir() {
			return nil
		}
		if folders++; folders > maxGroupFolders {
			return fmt.Errorf("%s has more than %d groups below it", group, maxGroupFolders)
		}
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			pid, err := strconv.ParseUint(strings.TrimSuffix(line, "\n"), 10, 32)
			if seen++; err != nil || seen > maxGroupProcesses {
				return fmt.Errorf("%s has more processes than can be looked at", group)
			}
			if uint32(pid) == ownPID || !g.kin(uint32(pid), known) {
				return fmt.Errorf("its processes have no control group of their own: process %d, "+
					"which is of no job, is in %s too", pid, group)
			}
		}
		return nil
	})
}

// kin reports whether a process is known, or was started by one that is.
func (g groups) kin(pid uint32, known map[uint32]bool) bool {
	for range maxAncestors {
		if known[pid] {
			return true
		}
		if pid = g.parent(pid); pid <= 1 {
			return false
		}
	}
	return false
}

// parent returns the process that started another, or that has it since that ended; 0: not known.
func (g groups) parent(pid uint32) uint32 {
	text, err := os.ReadFile(g.proc(pid, "stat"))
	if err != nil {
		return 0
	}
	// proc_pid_stat(5): the second field is a name in parentheses, which may hold anything.
	_, rest, _ := strings.Cut(string(text[max(0, strings.LastIndexByte(string(text), ')')):]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		return 0
	}
	n, err := strconv.ParseUint(fields[1], 10, 32)
	if err != nil {
		return 0
	}
	return uint32(n)
}

func (g groups) proc(pid uint32, file string) string {
	return g.root + "/proc/" + strconv.FormatUint(uint64(pid), 10) + "/" + file
}
