package device

import (
	"fmt"
	"strconv"
	"strings"
)

// Topology is how the GPUs of a machine are connected with each other and with its processors.
type Topology struct {
	// Devices are the GPUs' IDs, in the order of the rows and columns of Matrix.
	Devices []string `json:"devices"`
	// Matrix says how each device is connected to each other one: by a [Path], where "NV" is
	// followed by the number of connections, like "NV12".
	Matrix [][]string `json:"matrix"`
	// Near says for each device which processors and memory are near to it.
	Near []Near `json:"near"`
}

// Near is what of the host is near to a device.
type Near struct {
	// CPUs are the near processors, ascending; empty when the system does not tell.
	CPUs []int `json:"cpus"`
	// NUMANode is the near memory node; nil when the system does not tell.
	NUMANode *int `json:"numa_node"`
}

// TopologyOf returns the topology of the GPUs among the devices; the other devices are left out.
// Without a GPU all its lists are empty.
func TopologyOf(devices []Info) Topology {
	t := Topology{Devices: []string{}, Matrix: [][]string{}, Near: []Near{}}
	for _, d := range devices {
		if d.Kind != CPU {
			t.Devices = append(t.Devices, d.ID)
			t.Near = append(t.Near, Near{CPUs: append([]int{}, d.CPUs...), NUMANode: d.NUMANode})
		}
	}
	for _, d := range devices {
		if d.Kind == CPU {
			continue
		}
		row := make([]string, len(t.Devices))
		for i, to := range t.Devices {
			row[i] = d.path(to)
		}
		t.Matrix = append(t.Matrix, row)
	}
	return t
}

// path spells the path to another device as a cell of the matrix.
func (d *Info) path(to string) string {
	if to == d.ID {
		return string(PathSelf)
	}
	for _, l := range d.Links {
		switch {
		case l.To != to:
		case l.Path == PathNVLink:
			return string(PathNVLink) + strconv.Itoa(l.NVLinks)
		default:
			return string(l.Path)
		}
	}
	return string(PathUnknown)
}

// legend explains the cells, in the order in which they are printed.
var legend = []struct {
	path Path
	text string
}{
	{PathNVLink, "that many NVLink connections, direct or through a switch"},
	{PathBoard, "both on one board"},
	{PathSwitch, "at most one PCIe switch"},
	{PathSwitches, "several PCIe switches, no host bridge"},
	{PathBridge, "a PCIe host bridge, mostly the processor"},
	{PathNode, "several host bridges of one memory node"},
	{PathSystem, "the interconnect between memory nodes"},
	{PathUnknown, "the driver does not tell"},
}

// Rows are the matrix as text, with the processors and the memory node that are near to each
// device; the first row is the head. Without devices there is none.
func (t Topology) Rows() [][]string {
	if len(t.Devices) == 0 {
		return nil
	}
	rows := [][]string{append(append([]string{""}, t.Devices...), "near CPUs", "near NUMA node")}
	for i, d := range t.Devices {
		rows = append(rows, append(append([]string{d}, t.Matrix[i]...),
			orDash(RangeList(t.Near[i].CPUs)), node(t.Near[i].NUMANode)))
	}
	return rows
}

// Legend are lines that say what the paths in the matrix are.
func (t Topology) Legend() []string {
	occurs := map[Path]bool{}
	for _, row := range t.Matrix {
		for _, cell := range row {
			occurs[Path(strings.TrimRight(cell, "0123456789"))] = true
		}
	}
	var lines []string
	for _, l := range legend {
		if !occurs[l.path] {
			continue
		}
		name := string(l.path)
		if l.path == PathNVLink {
			name += "#"
		}
		lines = append(lines, fmt.Sprintf("%-4s  %s", name, l.text))
	}
	return lines
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func node(n *int) string {
	if n == nil {
		return "-"
	}
	return strconv.Itoa(*n)
}

// RangeList spells ascending numbers as Linux does in its lists of processors, like "0-3,8,10-11".
func RangeList(numbers []int) string {
	var b strings.Builder
	for i := 0; i < len(numbers); {
		last := i
		for last+1 < len(numbers) && numbers[last+1] == numbers[last]+1 {
			last++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(numbers[i]))
		if last > i {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(numbers[last]))
		}
		i = last + 1
	}
	return b.String()
}
