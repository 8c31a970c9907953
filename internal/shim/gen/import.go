package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ReadHeaders reads the CUDA headers in a directory.
func ReadHeaders(dir string) (*Header, error) {
	cuda, err := os.ReadFile(filepath.Join(dir, "cuda.h"))
	if err != nil {
		return nil, fmt.Errorf("CUDA headers in %s: %w", dir, err)
	}
	var typedefs strings.Builder
	var more []string
	for _, name := range []string{"cuda", "cudaGL", "cudaEGL", "cudaVDPAU", "cudaProfiler"} {
		text, err := os.ReadFile(filepath.Join(dir, name+"Typedefs.h"))
		if err != nil {
			return nil, fmt.Errorf("CUDA headers in %s: %w", dir, err)
		}
		typedefs.Write(text)
		if text, err := os.ReadFile(filepath.Join(dir, name+".h")); err == nil && name != "cuda" {
			more = append(more, string(text))
		}
	}
	return ParseHeader(string(cuda), typedefs.String(), more...)
}

// Import adds to the table what the header has and the table has not: calls as pass-through rows,
// and the types they need. A known call keeps its class and handler and takes over the header's
// parameters, so the newest header has to be imported last.
func (t *Table) Import(h *Header) {
	at := map[string]int{}
	for i, c := range t.Calls {
		at[c.Symbol] = i
	}
	for _, c := range h.Calls {
		i, known := at[c.Symbol]
		if !known {
			c.Class, c.Handler = classOf(c.Base()), "-"
			t.Calls = append(t.Calls, c)
			continue
		}
		old := &t.Calls[i]
		old.Params = c.Params
		if c.Since != 0 && (old.Since == 0 || c.Since < old.Since) {
			old.Since = c.Since
		}
	}
	t.importTypes(h)
}

// foreign are types that the headers take from elsewhere or state in a way that differs by
// platform.
var foreign = map[string]string{
	"CUdeviceptr": "uint64_t", "CUdevice": "int", "cuuint32_t": "uint32_t",
	"cuuint64_t": "uint64_t",
	"GLuint":     "unsigned int", "GLenum": "unsigned int", "EGLint": "int",
	"EGLImageKHR": "void *", "EGLStreamKHR": "void *", "EGLSyncKHR": "void *",
	"VdpDevice": "uint32_t", "VdpVideoSurface": "uint32_t", "VdpOutputSurface": "uint32_t",
	"VdpGetProcAddress": "opaque",
	"CUasyncCallback":   "function", "CUoutput_mode": "int",
}

var builtin = []string{"const", "void", "char", "unsigned", "signed", "int", "long", "short",
	"float", "double", "size_t", "CUresult"}

func (t *Table) importTypes(h *Header) {
	have := map[string]bool{}
	for _, x := range t.Types {
		have[x.Name] = true
	}
	for _, c := range t.Calls {
		for _, p := range c.Params {
			for w := range strings.FieldsSeq(strings.ReplaceAll(p.Type, "*", " ")) {
				if slices.Contains(builtin, w) || have[w] {
					continue
				}
				have[w] = true
				t.Types = append(t.Types, Type{w, h.kind(w)})
			}
		}
	}
}

func (h *Header) kind(name string) string {
	for range 8 {
		if k, ok := foreign[name]; ok {
			return k
		}
		if k := h.Kinds[name]; k != "" {
			return k
		}
		next, ok := h.Alias[name]
		if !ok {
			break
		}
		name = next
	}
	return "opaque"
}

// classOf guesses a new call's class from its name; it is for the reader only.
func classOf(base string) string {
	for _, c := range []struct{ prefix, class string }{
		{"cuGraphics", "interop"}, {"cuGL", "interop"}, {"cuEGL", "interop"},
		{"cuVDPAU", "interop"},
		{"cuGraph", "graph"}, {"cuUserObject", "graph"}, {"cuStream", "stream"},
		{"cuEvent", "event"},
		{"cuMemPool", "pool"}, {"cuMemcpy", "copy"}, {"cuMemset", "copy"}, {"cuMemHost", "host"},
		{"cuMem", "memory"},
		{"cuArray", "array"}, {"cuMipmapped", "array"}, {"cuTex", "texture"}, {"cuSurf", "texture"},
		{"cuTensorMap", "texture"},
		{"cuModule", "module"}, {"cuLibrary", "module"}, {"cuKernel", "module"},
		{"cuFunc", "module"}, {"cuLink", "module"},
		{"cuParam", "module"}, {"cuCtx", "ctx"}, {"cuDevicePrimaryCtx", "ctx"},
		{"cuGreenCtx", "ctx"}, {"cuDevice", "device"},
		{"cuLaunch", "launch"}, {"cuIpc", "ipc"}, {"cuImportExternal", "external"},
		{"cuExternal", "external"},
		{"cuDestroyExternal", "external"}, {"cuProfiler", "profiler"}, {"cuCheckpoint", "process"},
		{"cuCoredump", "process"},
		{"cuMulticast", "memory"}, {"cuPointer", "query"}, {"cuOccupancy", "query"},
		{"cuGet", "query"}, {"cuLog", "process"},
	} {
		if strings.HasPrefix(base, c.prefix) {
			return c.class
		}
	}
	return "other"
}
