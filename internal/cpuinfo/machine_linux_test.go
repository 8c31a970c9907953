package cpuinfo

import (
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
