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
	{"internal/shim/...", 0, Beside, "C inside other people's processes"},

	{"tensor", 0, Engine, "types, shapes, views"},
	{"internal/strided", 1, Engine, ""},
	{"tensor/npy", 2, Engine, ""},
	{"internal/kernel/gemm", 1, Engine, "matrix products"},
	{"internal/kernel/philox", 0, Engine, ""},
	{"internal/kernel/vec", 0, Engine, "SIMD loops"},
	{"internal/kernel/forest", 0, Engine, "decision trees"},
	{"internal/kernel/nbits", 0, Engine, "weights of four bits"},
	{"internal/kernel/conv", 2, Engine, "convolutions"},
	{"internal/kernel/attention", 2, Engine, "attention without scores"},
	{"device", 0, Engine, "Device, Buffer, Gate, Quota"},
	{"internal/op", 2, Engine, "operators: shapes, reference"},
	{"op", 3, Engine, "for operators of one's own"},
	{"internal/op/ml", 3, Engine, "trees, linear models"},
	{"internal/op/microsoft", 3, Engine, "ONNX Runtime's operators"},
	{"internal/op/optest", 3, Engine, ""},
	{"graph", 4, Engine, "the model as a graph"},
	{"graph/stages", 5, Engine, ""},
	{"device/compute", 3, Engine, "kernels, tasks, bindings"},
	{"device/cpu", 4, Engine, "pool, memory, topology"},
	{"device/cpu/kernels", 5, Engine, "operators on the CPU"},
	{"device/far", 5, Engine, "a device out of sight"},
	{"device/devicetest", 4, Engine, ""},
	{"device/machine", 6, Engine, "devices by name"},
	{"internal/nvml", 3, Engine, "GPUs and their links"},
	{"internal/pass", 5, Engine, "one rewrite a file"},
	{"grad", 5, Engine, "gradients of graphs"},
	{"train/scale", 5, Engine, "scales of losses"},
	{"onnx", 6, Engine, "files in and out"},
	{"plan", 6, Engine, "steps and memory offsets"},
	{"zoo", 6, Engine, "standard architectures"},
	{"internal/conformance/archive", 0, Engine, ""},
	{"internal/conformance", 8, Engine, ""},
	{"internal/conformance/table", 9, Engine, ""},
	{"plan/cache", 7, Engine, "compiled plans on disk"},
	{"engine", 7, Engine, "sessions, iterations"},
	{"feed", 7, Both, "inputs of models"},
	{"internal/roofline", 8, Engine, ""},
	{"internal/tune", 8, Engine, ""},
	{"", 8, Both, "weir: the library face"},
	{"train/recipe", 8, Both, ""},
	{"train/step", 7, Engine, ""},
	{"train/data", 3, Engine, ""},
	{"train/checkpoint", 3, Engine, ""},
	{"train/dist", 3, Engine, ""},
	{"train", 9, Both, "recipes to trained models"},
	{"train/report", 10, Both, ""},
	{"examples/digits", 0, Engine, ""},
	{"examples/...", 10, Both, ""},

	{"share", 1, Sharing, "Job, Share, Snapshot, Policy"},
	{"internal/wire", 1, Sharing, "shared page, messages"},
	{"internal/wire/gen", 2, Sharing, ""},
	{"share/policy", 2, Sharing, "one policy a file"},
	{"share/evict", 2, Sharing, "who gives memory back"},
	{"share/catalogue", 2, Sharing, "devices by data sheet"},
	{"server/admit", 2, Sharing, "which requests run, and when"},
	{"server/queue", 3, Sharing, "requests that wait for a model"},
	{"share/core", 3, Sharing, "events in, decisions out"},
	{"share/core/coretest", 4, Sharing, ""},
	{"share/broker", 4, Sharing, "real time, leases"},
	{"share/sim", 4, Sharing, "virtual time"},

	{"internal/seat", 7, Both, "leases as gates, quotas"},
	{"scenario", 8, Both, "jobs on one device, alone and together"},
	{"scenario/view", 9, Both, "live view"},
	{"scenario/report", 9, Both, "report page"},
	{"agent", 9, Both, "process jobs"},
	{"server/store", 5, Both, "state that outlives the process"},
	{"server/sealed", 5, Both, "models encrypted at rest"},
	{"server/audit", 6, Both, "who did what, in a chain"},
	{"server/auth", 7, Both, "who asks, and what they may"},
	{"server/oip/inferencepb", 5, Both, ""},
	{"server/oip", 6, Both, "the inference protocol"},
	{"server/shm", 1, Both, "memory shared with clients"},
	{"server/kept", 1, Both, "answers that are kept"},
	{"server/repo", 8, Both, "folders of models"},
	{"server/source", 9, Both, "registries, buckets"},
	{"server/config", 5, Both, "the file of a server"},
	{"server/telemetry/otlp", 7, Both, ""},
	{"server/client", 9, Both, "asks a server"},
	{"server/traffic", 0, Both, "requests at their times"},
	{"server/telemetry", 9, Both, "metrics, traces, load"},
	{"server/steps", 9, Both, "pictures and texts in front of models"},
	{"server/web", 10, Both, "the page of a server"},
	{"server", 10, Both, "models as a service"},
	{"server/rpc", 11, Both, "and over gRPC"},
	{"server/jobs", 11, Both, "batch jobs that outlive it"},
	{"server/training", 11, Both, "training beside serving"},
	{"server/peer/models", 10, Both, ""},
	{"server/peer/fuzz", 12, Both, ""},
	{"cmd/weir", 12, Both, "flags and wiring"},
	{"kube/place", 1, Both, "which node, which devices"},
	{"kube/live", 2, Both, "clusters as they are now"},
	{"kube/sim", 2, Both, "clusters in virtual time"},
	{"kube/dra", 10, Both, "devices and claims of a node"},
	{"kube/e2e", 11, Both, ""},
	{"kube/e2e/cluster", 0, Both, ""},
	{"bench/cluster", 10, Both, ""},
	{"bench/precision", 10, Both, ""},
	{"bench/loops", 10, Both, ""},
	{"bench/instructions", 10, Both, ""},
	{"bench/instructions/guest", 10, Both, ""},
	{"bench/amp", 10, Both, ""},
	{"bench/train", 10, Both, ""},
	{"bench/beside", 10, Both, ""},
	{"bench/life", 12, Both, ""},
	{"bench/elastic", 12, Both, ""},
	{"bench/parallel", 12, Both, ""},
	{"bench/converge", 12, Both, ""},
	{"bench/harvest", 10, Both, ""},
	{"bench/peers", 11, Both, ""},
	{"bench/serve", 12, Both, ""},
	{"bench/binary", 10, Both, ""},
	{"bench/sharing", 10, Both, ""},
	{"bench/exec", 10, Both, ""},
	{"bench/freeze", 10, Both, ""},
	{"bench/start", 10, Both, ""},
	{"bench/switch", 10, Both, ""},
	{"bench/tiles", 10, Both, ""},
	{"bench/userland", 10, Both, ""},
	{"bench/policies", 10, Both, ""},
	{"bench/memory", 10, Both, ""},
	{"gpu/buildshim", 10, Both, ""},
	{"gpu/facts", 10, Both, ""},
}

// Of returns the row of the package with that path below the module: its own, else that of the
// nearest path above it that covers what lies under it.
func Of(path string) (row Row, ok bool) {
	longest := -1
	for _, r := range Table {
		under, all := strings.CutSuffix(r.Path, "/...")
		switch {
		case r.Path == path:
			return r, true
		case all && (path == under || strings.HasPrefix(path, under+"/")) && len(under) > longest:
			row, ok, longest = r, true, len(under)
		}
	}
	return row, ok
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
