package sim

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weirgpu/weir/kube/place"
)

// Pod is a pod of a trace.
type Pod struct {
	Name string
	place.Request
	Created, Deleted int64 // seconds; both 0 where the trace has no times
}

// Trace is a cluster and the pods that came to it.
type Trace struct {
	Name  string // of the file of pods, without what all such files have in common
	Nodes []place.Node
	Pods  []Pod
}

// nodeFile is the file of nodes beside the files of pods.
const nodeFile = "openb_node_list_gpu_node.csv"

// podPrefix is what names of files of pods begin with.
const podPrefix = "openb_pod_list_"

// Files returns the files of pods of a folder, by name; of a file, that one alone.
func Files(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	files, err := filepath.Glob(filepath.Join(path, podPrefix+"*.csv"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("trace: %s holds no %s*.csv: give a file of pods, or the folder "+
			"csv of the unpacked openb traces", path, podPrefix)
	}
	slices.Sort(files)
	return files, nil
}

// Open reads a file of pods and a file of nodes; where none is named, the one of the openb traces
// beside the file of pods.
func Open(pods, nodes string) (*Trace, error) {
	if nodes == "" {
		nodes = filepath.Join(filepath.Dir(pods), nodeFile)
	}
	t := &Trace{Name: strings.TrimPrefix(strings.TrimSuffix(filepath.Base(pods), ".csv"),
		podPrefix)}
	err := readFile(nodes, []string{"sn", "cpu_milli", "memory_mib", "gpu", "model"}, t.node)
	if err != nil {
		return nil, err
	}
	err = readFile(pods, []string{"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"},
		t.pod)
	if err != nil {
		return nil, err
	}
	if len(t.Nodes) == 0 || len(t.Pods) == 0 {
		return nil, fmt.Errorf("trace: %s and %s have %d nodes and %d pods: none can be simulated "+
			"without either", nodes, pods, len(t.Nodes), len(t.Pods))
	}
	return t, nil
}

// readFile reads a file of comma-separated values that must have some columns.
func readFile(path string, columns []string, each func(*row) error) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	defer f.Close()
	if err := read(f, columns, each); err != nil {
		return fmt.Errorf("trace: %s: %w", path, err)
	}
	return nil
}

func read(from io.Reader, columns []string, each func(*row) error) error {
	r := csv.NewReader(from)
	r.ReuseRecord = true
	head, err := r.Read()
	if err != nil {
		return fmt.Errorf("the line that names the columns: %w", err)
	}
	at := &row{column: map[string]int{}}
	for i, name := range head {
		at.column[name] = i
	}
	for _, name := range columns {
		if _, ok := at.column[name]; !ok {
			return fmt.Errorf("no column %q: it needs %s", name, strings.Join(columns, ", "))
		}
	}
	for {
		at.values, err = r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = errors.Join(each(at), at.err)
		}
		if err != nil {
			line, _ := r.FieldPos(0)
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
}

// row is a line of a file, and the first error of reading it.
type row struct {
	column map[string]int
	values []string
	err    error
}

// text returns a column, "" where the file does not have it.
func (r *row) text(name string) string {
	if i, ok := r.column[name]; ok && i < len(r.values) {
		return r.values[i]
	}
	return ""
}

// number returns a column that is a whole number; an empty or absent one is 0. Some files write
// whole numbers as floating-point ones.
func (r *row) number(name string, most int64) int64 {
	s := r.text(name)
	if s == "" {
		return 0
	}
	v, err := strconv.ParseFloat(s, 64)
	if (err != nil || v < 0 || v > float64(most) || v != float64(int64(v))) && r.err == nil {
		r.err = fmt.Errorf("column %s is %q: a whole number from 0 to %d can be", name, s, most)
	}
	if r.err != nil {
		return 0
	}
	return int64(v)
}

// Bounds of what traces hold.
const (
	mebi     = 1 << 20
	mostCPU  = 1 << 30
	mostMiB  = 1 << 30
	mostTime = 1 << 50
)

func (t *Trace) node(r *row) error {
	n := place.Node{Name: r.text("sn"), Model: r.text("model"),
		CPU: r.number("cpu_milli", mostCPU), Memory: r.number("memory_mib", mostMiB) * mebi,
		Devices: make([]place.Device, r.number("gpu", place.MaxDevices))}
	t.Nodes = append(t.Nodes, n)
	return nil
}

func (t *Trace) pod(r *row) error {
	p := Pod{Name: r.text("name"), Created: r.number("creation_time", mostTime),
		Deleted: r.number("deletion_time", mostTime)}
	p.CPU = r.number("cpu_milli", mostCPU)
	p.Memory = r.number("memory_mib", mostMiB) * mebi
	p.Count = int(r.number("num_gpu", place.MaxDevices))
	if p.Count > 0 {
		p.Units = int(min(r.number("gpu_milli", mostCPU), place.Whole))
		p.Models = r.text("gpu_spec")
	}
	if r.err != nil {
		return r.err
	}
	t.Pods = append(t.Pods, p)
	return p.Check()
}
