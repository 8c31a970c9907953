package cpuinfo

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestParseModelName(t *testing.T) {
	const text = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 9654\nmodel " +
		"name\t: other\n"
	if got := parseModelName(strings.NewReader(text)); got != "AMD EPYC 9654" {
		t.Errorf("parseModelName = %q", got)
	}
	if got := parseModelName(strings.NewReader("Features\t: asimd\n")); got != "" {
		t.Errorf("parseModelName without a name = %q", got)
	}
}

func TestParseCaches(t *testing.T) {
	dir := fstest.MapFS{}
	put := func(index, level, kind, size string) {
		for name, text := range map[string]string{"level": level, "type": kind, "size": size} {
			dir[index+"/"+name] = &fstest.MapFile{Data: []byte(text + "\n")}
		}
	}
	put("index0", "1", "Data", "48K")
	put("index1", "1", "Instruction", "32K")
	put("index2", "2", "Unified", "2048K")
	put("index3", "3", "Unified", "1M")
	if got, want := parseCaches(
		dir,
	), (Caches{L1D: 48 << 10, L2: 2 << 20, L3: 1 << 20}); got != want {
		t.Errorf("parseCaches = %+v, want %+v", got, want)
	}
	if got := parseCaches(fstest.MapFS{}); got != (Caches{}) {
		t.Errorf("parseCaches of an empty folder = %+v", got)
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int{"32K": 32 << 10, "1M": 1 << 20, "64": 64, "": 0, "K": 0,
		"-3K": 0, "9999999999K": 0} {
		if got := parseSize(text); got != want {
			t.Errorf("parseSize(%q) = %d, want %d", text, got, want)
		}
	}
}

func TestMachineIsDescribed(t *testing.T) {
	if ModelName() == "" {
		t.Error("ModelName() is empty")
	}
	if c := CacheSizes(); c.L1D <= 0 || c.L2 <= 0 || c.L3 <= 0 {
		t.Errorf("CacheSizes() = %+v, want every size above 0", c)
	}
	t.Logf("%s, %+v, %v", ModelName(), CacheSizes(), Supported())
}

// processorsOf makes sysfs' folder of processors of these capacities; the kernel of one with 0 says
// none.
func processorsOf(capacities ...string) fstest.MapFS {
	cpus := fstest.MapFS{"cpufreq/policy0": {}, "cpuidle/current_driver": {}}
	for i, text := range capacities {
		folder := fmt.Sprintf("cpu%d", i)
		cpus[folder+"/online"] = &fstest.MapFile{Data: []byte("1\n")}
		if text != "" {
			cpus[folder+"/cpu_capacity"] = &fstest.MapFile{Data: []byte(text + "\n")}
		}
	}
	return cpus
}

func TestKindsOfCoresByCapacity(t *testing.T) {
	for _, e := range []struct {
		name       string
		capacities []string
		kinds      []CoreKind
		folders    []string
	}{
		{"none told", []string{"", ""}, nil, nil},
		{"alike", []string{"1024", "1024"}, []CoreKind{{2, 1}}, []string{"cpu0"}},
		{"slow ones first", []string{"256", "256", "1024", "768"},
			[]CoreKind{{1, 1}, {1, 0.75}, {2, 0.25}}, []string{"cpu2", "cpu3", "cpu0"}},
		{"no numbers", []string{"much", "-1", "512"}, []CoreKind{{1, 1}}, []string{"cpu2"}},
	} {
		kinds, folders := parseKinds(processorsOf(e.capacities...))
		if !slices.Equal(kinds, e.kinds) || !slices.Equal(folders, e.folders) {
			t.Errorf("%s: %v in %v, want %v in %v", e.name, kinds, folders, e.kinds, e.folders)
		}
	}
}

// Whichever core a block of work runs on, it fits the caches; a size that one kind does not tell is
// the other's.
func TestCachesAreThoseOfTheSmallestCores(t *testing.T) {
	cpus := processorsOf("1024", "256")
	put := func(file, text string) { cpus[file] = &fstest.MapFile{Data: []byte(text + "\n")} }
	for cpu, sizes := range map[string]map[string]string{
		"cpu0": {"1": "64K", "2": "512K", "3": "4M"}, "cpu1": {"1": "32K", "2": "128K"},
	} {
		for level, size := range sizes {
			put(cpu+"/cache/index"+level+"/level", level)
			put(cpu+"/cache/index"+level+"/type", "Unified")
			put(cpu+"/cache/index"+level+"/size", size)
		}
	}
	_, folders := parseKinds(cpus)
	want := Caches{32 << 10, 128 << 10, 4 << 20}
	if got := leastCaches(cpus, folders); got != want {
		t.Errorf("caches %v, want %v", got, want)
	}
	if got, want := leastCaches(cpus, nil), (Caches{64 << 10, 512 << 10, 4 << 20}); got != want {
		t.Errorf("caches of the first %v, want %v", got, want)
	}
}
