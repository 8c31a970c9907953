package cpuinfo

import (
	"bufio"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
)

func readModelName() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer f.Close()
	return parseModelName(f)
}

// parseModelName finds the first "model name" line of proc_pid(5)'s /proc/cpuinfo.
func parseModelName(r io.Reader) string {
	lines := bufio.NewScanner(io.LimitReader(r, 1<<16))
	for lines.Scan() {
		key, value, ok := strings.Cut(lines.Text(), ":")
		if ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func readCacheSizes() Caches {
	return parseCaches(os.DirFS("/sys/devices/system/cpu/cpu0/cache"))
}

// parseCaches reads the index* folders of one processor's cache folder in sysfs, laid out as the
// kernel's Documentation/ABI/testing/sysfs-devices-system-cpu says.
func parseCaches(dir fs.FS) Caches {
	var c Caches
	indexes, err := fs.Glob(dir, "index*")
	if err != nil {
		return c
	}
	for _, index := range indexes {
		if readWord(dir, index, "type") == "Instruction" {
			continue
		}
		size := parseSize(readWord(dir, index, "size"))
		switch readWord(dir, index, "level") {
		case "1":
			c.L1D = size
		case "2":
			c.L2 = size
		case "3":
			c.L3 = size
		}
	}
	return c
}

func readWord(dir fs.FS, index, name string) string {
	b, err := fs.ReadFile(dir, path.Join(index, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// parseSize reads "32K" or "1M" and returns bytes, or 0 for anything that is not a plausible cache
// size.
func parseSize(s string) int {
	unit := 1
	switch {
	case strings.HasSuffix(s, "K"):
		unit = 1 << 10
	case strings.HasSuffix(s, "M"):
		unit = 1 << 20
	}
	n, err := strconv.Atoi(strings.TrimRight(s, "KM"))
	if err != nil || n < 0 || n > 1<<20 {
		return 0
	}
	return n * unit
}
