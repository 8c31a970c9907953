// Package floors is the architecture as data: which floor and which column each package belongs to,
// and what that allows it to import. A test of the root package holds it against the code, and the
// command draw makes the picture in the README.
//
// Meet first: [Table] and [Allowed].
//
// Concurrency: the table is not written.
//
// What it refuses: a package that has no row; give it one when you add it.
package floors

import (
	"fmt"
	"strings"
)

// Module is the path that all packages begin with.
const Module = "github.com/weirgpu/weir"

// Column is one of the two stacks of packages that meet at the top only.
type Column int

// The columns.
const (
	Both    Column = iota // the joints, which may import from either column
	Engine                // tensors to sessions
	Sharing               // who runs when
	Beside                // imported by any floor, imports none
)

// Row places a package.
type Row struct {
	Path   string // below the module; "/..." at the end covers what lies under it
	Floor  int
	Column Column
	What   string // in a few words; "" leaves the package out of the picture
}

// Table is the architecture, from the ground up.
var Table = []Row{
	{"internal/...", 0, Beside, "clock, trace, CPU facts"},
	{"shim/...", 0, Beside, "C inside other people's processes"},

	{"tensor", 0, Engine, "types, shapes, views"},
	{"tensor/npy", 1, Engine, ""},
	{"kernel/gemm", 0, Engine, "matrix products"},
	{"kernel/vec", 0, Engine, "SIMD loops"},
	{"kernel/forest", 0, Engine, "decision trees"},
	{"kernel/nbits", 0, Engine, "weights of four bits"},
	{"kernel/conv", 1, Engine, "convolutions"},
	{"kernel/attention", 1, Engine, "attention without scores"},
	{"device", 0, Engine, "Device, Buffer, Gate, Quota"},
	{"op", 1, Engine, "operators: shapes, reference"},
	{"op/ml", 2, Engine, "trees, linear models"},
	{"op/microsoft", 2, Engine, "ONNX Runtime's operators"},
	{"op/optest", 2, Engine, ""},
	{"graph", 3, Engine, "the model as a graph"},
	{"device/compute", 2, Engine, "kernels, tasks, bindings"},
	{"device/cpu", 3, Engine, "pool, memory, topology"},
	{"device/cpu/kernels", 4, Engine, "operators on the CPU"},
	{"device/far", 4, Engine, "a device out of sight"},
	{"device/devicetest", 3, Engine, ""},
	{"device/machine", 5, Engine, "devices by name"},
	{"device/nvml", 2, Engine, "GPUs and their links"},
	{"pass", 4, Engine, "one rewrite a file"},
	{"grad", 4, Engine, "gradients of graphs"},
	{"onnx", 5, Engine, "files in and out"},
	{"plan", 5, Engine, "steps and memory offsets"},
	{"zoo", 5, Engine, "standard architectures"},
	{"conformance/archive", 0, Engine, ""},
	{"conformance", 7, Engine, ""},
	{"conformance/table", 8, Engine, ""},
	{"plan/cache", 6, Engine, "compiled plans on disk"},
	{"engine", 6, Engine, "sessions, iterations"},
	{"engine/roofline", 7, Engine, ""},
	{"engine/tune", 7, Engine, ""},
	{"", 7, Engine, "weir: the library face"},
	{"examples/digits", 0, Engine, ""},

	{"share", 1, Sharing, "Job, Share, Snapshot, Policy"},
	{"share/wire", 1, Sharing, "shared page, messages"},
	{"share/wire/gen", 2, Sharing, ""},
	{"share/policy", 2, Sharing, "one policy a file"},
	{"share/catalogue", 2, Sharing, "devices by data sheet"},
	{"share/core", 3, Sharing, "events in, decisions out"},
	{"share/core/coretest", 4, Sharing, ""},
	{"share/broker", 4, Sharing, "real time, leases"},
	{"share/sim", 4, Sharing, "virtual time"},
	{"shim/fakecuda", 0, Sharing, ""},

	{"scenario", 7, Both, "jobs on one device, alone and together"},
	{"scenario/view", 8, Both, "live view"},
	{"scenario/report", 8, Both, "report page"},
	{"agent", 8, Both, "process jobs"},
	{"cmd/weir", 9, Both, "flags and wiring"},
	{"bench/precision", 9, Both, ""},
	{"bench/binary", 9, Both, ""},
	{"bench/sharing", 9, Both, ""},
	{"bench/exec", 9, Both, ""},
	{"bench/start", 9, Both, ""},
	{"bench/userland", 9, Both, ""},
	{"bench/policies", 9, Both, ""},
	{"gpu/buildshim", 9, Both, ""},
	{"gpu/facts", 9, Both, ""},
}

// Of returns the row of the package with that path below the module.
func Of(path string) (Row, bool) {
	for _, r := range Table {
		under, all := strings.CutSuffix(r.Path, "/...")
		if r.Path == path || all && (path == under || strings.HasPrefix(path, under+"/")) {
			return r, true
		}
	}
	return Row{}, false
}

// Within returns the path below the module of an import path, and whether it is one of the
// module's.
func Within(importPath string) (string, bool) {
	rest, ok := strings.CutPrefix(importPath, Module)
	return strings.TrimPrefix(rest, "/"), ok && (rest == "" || rest[0] == '/')
}

// Allowed reports why package from must not import package to, nil when it may: an import goes to a
// strictly lower floor of the same column, or to a package beside the floors.
func Allowed(from, to string) error {
	f, ok := Of(from)
	if !ok {
		return fmt.Errorf("package %q has no floor: give it a row in internal/floors", from)
	}
	t, ok := Of(to)
	switch {
	case !ok:
		return fmt.Errorf("package %q has no floor: give it a row in internal/floors", to)
	case t.Column == Beside:
		return nil
	case f.Column == Beside:
		return fmt.Errorf("%s is beside the floors and imports %s", from, to)
	case f.Column != Both && t.Column != f.Column:
		return fmt.Errorf(
			"%s imports %s: the engine column and the sharing column never import each other", from,
			to)
	case t.Floor >= f.Floor:
		return fmt.Errorf("%s (floor %d) imports %s (floor %d): imports go down only", from,
			f.Floor, to, t.Floor)
	}
	return nil
}
