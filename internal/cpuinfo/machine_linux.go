package cpuinfo

import (
	"bufio"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

func readModelName() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer f.Close()
	if runtime.GOARCH == "arm64" {
		return parseParts(f)
	}
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

// processors is sysfs' folder of them.
const processors = "/sys/devices/system/cpu"

func readCacheSizes() Caches {
	cpus := os.DirFS(processors)
	if runtime.GOARCH == "arm64" {
		_, folders := parseKinds(cpus)
		return leastCaches(cpus, folders)
	}
	return leastCaches(cpus, nil)
}

func readCoreKinds() []CoreKind {
	if runtime.GOARCH != "arm64" {
		return nil
	}
	kinds, _ := parseKinds(os.DirFS(processors))
	return kinds
}

// parseKinds counts processors by the capacity that the kernel has of each, 1024 for the fastest,
// and names one folder of each kind, both in descending order of capacity. Files are laid out as
// the kernel's Documentation/ABI/testing/sysfs-devices-system-cpu says (cpu_capacity); a processor
// of none is left out.
func parseKinds(cpus fs.FS) (kinds []CoreKind, folders []string) {
	files, err := fs.Glob(cpus, "cpu[0-9]*/cpu_capacity")
	if err != nil {
		return nil, nil
	}
	of := map[int][]string{}
	for _, file := range files {
		folder := path.Dir(file)
		if n, err := strconv.Atoi(readWord(cpus, folder, "cpu_capacity")); err == nil && n > 0 {
			of[n] = append(of[n], folder)
		}
	}
	capacities := slices.Sorted(maps.Keys(of))
	slices.Reverse(capacities)
	for _, n := range capacities {
		kinds = append(kinds, CoreKind{len(of[n]), float64(n) / float64(capacities[0])})
		folders = append(folders, of[n][0])
	}
	return kinds, folders
}

// leastCaches are the smallest that are known of these processors' folders, of the first's where
// there are none.
func leastCaches(cpus fs.FS, folders []string) (c Caches) {
	if len(folders) == 0 {
		folders = []string{"cpu0"}
	}
	for _, folder := range folders {
		if dir, err := fs.Sub(cpus, folder+"/cache"); err == nil {
			c = c.least(parseCaches(dir))
		}
	}
	return c
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
