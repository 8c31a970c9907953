package dra

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weirgpu/weir/share"
)

// periodUS is the period of a CPU quota, in microseconds, where a control group says none: the
// kernel's default (admin-guide/cgroup-v2.rst, cpu.max). Kubelets are told others
// (cpuCFSQuotaPeriod of KubeletConfiguration).
const periodUS = 100000

// leastQuotaUS is the lowest quota that the kernel takes (min_cfs_quota_period in kernel/sched).
const leastQuotaUS = 1000

// Hold holds a container to a part of the node's CPU: so much memory, and no more than limit
// thousandths of so many processors. It is what a runtime's createRuntime hook does, which is told
// of the container in JSON (OCI runtime specification, "State") when its control group is there
// and nothing of it runs. Root is the folder that holds proc and sys; empty: the machine's. A bound
// that is there and lower stays.
func Hold(root string, state io.Reader, memory share.Bytes, limit, processors int) error {
	var s struct {
		PID int `json:"pid"`
	}
	if err := json.NewDecoder(io.LimitReader(state, 1<<20)).Decode(&s); err != nil || s.PID <= 0 {
		return fmt.Errorf("hold: want a container's state with its pid on standard input: %w",
			errors.Join(err))
	}
	groups, err := os.ReadFile(filepath.Join(root, "/proc", strconv.Itoa(s.PID), "cgroup"))
	if err != nil {
		return fmt.Errorf("hold: %w", err)
	}
	time := int64(limit) * int64(processors)
	mount := filepath.Join(root, "/sys/fs/cgroup")
	held := 0
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		n, err := holdIn(mount, fields[1], fields[2], int64(memory), time)
		if err != nil {
			return fmt.Errorf("hold: container of process %d: %w", s.PID, err)
		}
		held += n
	}
	if held != 2 {
		return fmt.Errorf("hold: container of process %d: %d of memory and cpu have a control "+
			"group: want both", s.PID, held)
	}
	return nil
}

// holdIn bounds what the control group of a hierarchy bounds, and returns how much of memory and
// cpu that was. Time is in thousandths of a processor. The unified hierarchy has no name; those of
// version 1 are named by controllers.
func holdIn(mount, controllers, path string, memory, time int64) (held int, err error) {
	if controllers == "" {
		return holdUnified(filepath.Join(mount, path), memory, time)
	}
	for c := range strings.SplitSeq(controllers, ",") {
		dir := filepath.Join(mount, controllers, path)
		if _, e := os.Stat(dir); e != nil {
			dir = filepath.Join(mount, c, path)
		}
		switch c {
		case "memory":
			held++
			err = errors.Join(err, lower(filepath.Join(dir, "memory.limit_in_bytes"), memory, ""))
		case "cpu":
			held++
			period, _ := os.ReadFile(filepath.Join(dir, "cpu.cfs_period_us"))
			err = errors.Join(err, lower(filepath.Join(dir, "cpu.cfs_quota_us"),
				quotaUS(time, periodIn(string(period))), ""))
		}
	}
	return held, err
}

// holdUnified does so in a control group of version 2.
func holdUnified(dir string, memory, time int64) (held int, err error) {
	if _, err := os.Stat(filepath.Join(dir, "memory.max")); err != nil {
		return 0, nil // controllers are on hierarchies of version 1
	}
	path := filepath.Join(dir, "cpu.max")
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	_, own, _ := strings.Cut(string(text), " ")
	period := periodIn(own)
	return 2, errors.Join(lower(filepath.Join(dir, "memory.max"), memory, ""),
		lower(path, quotaUS(time, period), " "+strconv.FormatInt(period, 10)))
}

// periodIn is the period that a control group says it has.
func periodIn(text string) int64 {
	if n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil && n > 0 {
		return n
	}
	return periodUS
}

// quotaUS is so much time, in thousandths of a processor, of a period.
func quotaUS(time, period int64) int64 { return max(leastQuotaUS, time*period/Whole) }

// lower writes a bound to a file of a control group that has none or a higher one.
func lower(path string, to int64, more string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if n, err := strconv.ParseInt(first, 10, 64); err == nil && n > 0 && n <= to {
		return nil
	}
	return os.WriteFile(path, []byte(strconv.FormatInt(to, 10)+more), 0o644)
}
