package device

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
)

func twoNodes() []Info {
	zero, one := 0, 1
	gpu := func(id string, node *int, cpus []int, links ...Link) Info {
		return Info{ID: id, Kind: CUDA, NUMANode: node, CPUs: cpus, Links: links}
	}
	return []Info{
		{ID: "cpu:0", Kind: CPU, CPUs: []int{0, 1, 2, 3}},
		gpu("cuda:0", &zero, []int{0, 1, 8}, Link{To: "cuda:1", Path: PathNVLink, NVLinks: 12},
			Link{To: "cuda:2", Path: PathSystem}),
		gpu("cuda:1", &zero, []int{0, 1, 8}, Link{To: "cuda:0", Path: PathNVLink, NVLinks: 12},
			Link{To: "cuda:2", Path: PathSystem}),
		gpu("cuda:2", &one, nil, Link{To: "cuda:0", Path: PathSystem}),
	}
}

func TestTopologyText(t *testing.T) {
	top := TopologyOf(twoNodes())
	rows := [][]string{
		{"", "cuda:0", "cuda:1", "cuda:2", "near CPUs", "near NUMA node"},
		{"cuda:0", "X", "NV12", "SYS", "0-1,8", "0"},
		{"cuda:1", "NV12", "X", "SYS", "0-1,8", "0"},
		{"cuda:2", "SYS", "?", "X", "-", "1"},
	}
	if got := top.Rows(); !reflect.DeepEqual(got, rows) {
		t.Errorf("got %q, want %q", got, rows)
	}
	legend := []string{"NV#   that many NVLink connections, direct or through a switch",
		"SYS   the interconnect between memory nodes", "?     the driver does not tell"}
	if got := top.Legend(); !slices.Equal(got, legend) {
		t.Errorf("got %q, want %q", got, legend)
	}
}

// TestTopologyWithoutGPU holds that readers find lists, not null, where there is no GPU.
func TestTopologyWithoutGPU(t *testing.T) {
	top := TopologyOf(twoNodes()[:1])
	got, err := json.Marshal(top)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"devices":[],"matrix":[],"near":[]}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if rows, legend := top.Rows(), top.Legend(); len(rows) > 0 || len(legend) > 0 {
		t.Errorf("printed %q, %q", rows, legend)
	}
}

func TestRangeList(t *testing.T) {
	for _, c := range []struct {
		numbers []int
		want    string
	}{
		{nil, ""}, {[]int{3}, "3"}, {[]int{0, 1}, "0-1"}, {[]int{0, 2, 4}, "0,2,4"},
		{[]int{0, 1, 2, 3, 8, 10, 11}, "0-3,8,10-11"},
	} {
		if got := RangeList(c.numbers); got != c.want {
			t.Errorf("%v: got %q, want %q", c.numbers, got, c.want)
		}
	}
}
