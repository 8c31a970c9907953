package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Header is what cuda.h and cudaTypedefs.h of one CUDA release say of the driver's entry points.
type Header struct {
	Version int               // CUDA_VERSION
	Calls   []Call            // symbol, flavour and parameters; Since where the typedefs tell
	Kinds   map[string]string // type name to the kind of a type row
	Alias   map[string]string // typedef A B for names of the API: B to A
}

var (
	blockComment = regexp.MustCompile(`(?s)/\*.*?\*/`)
	lineComment  = regexp.MustCompile(`//[^\n]*`)
	versionLine  = regexp.MustCompile(`(?m)^#define CUDA_VERSION (\d+)`)
	defineLine   = regexp.MustCompile(
		`(?m)^\s*#define\s+(cu[A-Z]\w*)\s+(?:__CUDA_API_(PTDS|PTSZ)\()?(cu[A-Z]\w*)\)?\s*$`)
	declaration = regexp.MustCompile(`(?s)\bCUresult\s+CUDAAPI\s+(cu[A-Z]\w*)\s*(\([^()]*\))\s*;`)
	pfnTypedef  = regexp.MustCompile(
		`(?s)typedef\s+CUresult\s*\(\s*CUDAAPI\s*\*\s*PFN_(cu[A-Z]\w*?)_v(\d+)(_ptds|_ptsz)?\)\s*(\([^()]*\))\s*;`)

	handleTypedef   = regexp.MustCompile(`typedef\s+struct\s+\w+\s*\*\s*(\w+)\s*;`)
	enumTypedef     = regexp.MustCompile(`(?s)typedef\s+enum\s+\w*\s*\{[^}]*\}\s*(\w+)\s*;`)
	structEnd       = regexp.MustCompile(`\}\s*(\w+)\s*;`)
	functionTypedef = regexp.MustCompile(`typedef\s+[\w\s]+\*?\s*\(\s*CUDA_CB\s*\*\s*(\w+)\)`)
	plainTypedef    = regexp.MustCompile(
		`(?m)typedef\s+((?:const\s+)?(?:unsigned\s+)?\w+(?:\s+long|\s+int)*)\s+(\w+)\s*;`)
)

// ParseHeader reads the text of cuda.h and of all the *Typedefs.h beside it; more are the headers
// of the driver's interoperability calls, such as cudaGL.h.
//
// The header's own conventions are used: a public name is a macro for the symbol of its newest
// version, __CUDA_API_PTDS and __CUDA_API_PTSZ add the ending of the per-thread flavour, and the
// block under __CUDA_API_VERSION_INTERNAL declares all other symbols by their own names.
func ParseHeader(cuda, typedefs string, more ...string) (*Header, error) {
	cuda = uncomment(cuda)
	h := &Header{Kinds: map[string]string{}, Alias: map[string]string{}}
	m := versionLine.FindStringSubmatch(cuda)
	if m == nil {
		return nil, fmt.Errorf("cuda.h: no CUDA_VERSION")
	}
	h.Version, _ = strconv.Atoi(m[1])
	h.types(cuda)
	if err := h.declarations(cuda); err != nil {
		return nil, err
	}
	for _, text := range more {
		h.types(uncomment(text))
		if err := h.declarations(uncomment(text)); err != nil {
			return nil, err
		}
	}
	h.since(uncomment(typedefs))
	h.Calls = slices.DeleteFunc(h.Calls, func(c Call) bool {
		return strings.HasPrefix(c.Symbol, "cuWGL")
	})
	return h, nil
}

func uncomment(s string) string {
	s = lineComment.ReplaceAllString(blockComment.ReplaceAllString(s, " "), "")
	return strings.ReplaceAll(s, "__CUDA_DEPRECATED", " ")
}

func (h *Header) types(cuda string) {
	for _, m := range structEnd.FindAllStringSubmatch(cuda, -1) {
		h.Kinds[m[1]] = "opaque"
	}
	for _, m := range handleTypedef.FindAllStringSubmatch(cuda, -1) {
		h.Kinds[m[1]] = "handle"
	}
	for _, m := range enumTypedef.FindAllStringSubmatch(cuda, -1) {
		h.Kinds[m[1]] = "int"
	}
	for _, m := range functionTypedef.FindAllStringSubmatch(cuda, -1) {
		h.Kinds[m[1]] = "function"
	}
	for _, m := range plainTypedef.FindAllStringSubmatch(cuda, -1) {
		if _, known := h.Kinds[m[2]]; known && m[2] != "CUdeviceptr_v2" {
			continue
		}
		if strings.HasPrefix(m[1], "CU") || strings.HasPrefix(m[1], "cu") {
			h.Alias[m[2]] = m[1]
		} else if _, known := h.Kinds[m[2]]; !known {
			h.Kinds[m[2]] = m[1]
		}
	}
}

// declarations finds every symbol. Text before the internal block goes through the macros.
func (h *Header) declarations(cuda string) error {
	public, internal := cuda, ""
	if i := strings.LastIndex(cuda, "#if defined(__CUDA_API_VERSION_INTERNAL)\n"); i >= 0 {
		public, internal = cuda[:i], cuda[i:]
	}
	macros := map[string]string{}
	for _, m := range defineLine.FindAllStringSubmatch(public, -1) {
		symbol := m[3]
		if m[2] != "" {
			symbol += "_" + strings.ToLower(m[2])
		}
		macros[m[1]] = symbol
	}
	seen := map[string]bool{}
	for _, c := range h.Calls {
		seen[c.Symbol] = true
	}
	add := func(symbol, list string) error {
		if seen[symbol] {
			return nil
		}
		seen[symbol] = true
		params, err := parseParams(strings.Join(strings.Fields(list), " "))
		if err != nil {
			return fmt.Errorf("cuda.h: %s: %w", symbol, err)
		}
		c := Call{Symbol: symbol, Flavour: flavourOf(symbol), Params: params}
		h.Calls = append(h.Calls, c)
		return nil
	}
	for _, m := range declaration.FindAllStringSubmatch(public, -1) {
		symbol := m[1]
		if to, ok := macros[symbol]; ok {
			symbol = to
		}
		if err := add(symbol, m[2]); err != nil {
			return err
		}
	}
	// The block ends where the public declarations go on; these have no other version.
	for _, m := range declaration.FindAllStringSubmatch(internal, -1) {
		if err := add(m[1], m[2]); err != nil {
			return err
		}
	}
	return nil
}

func flavourOf(symbol string) Flavour {
	for _, f := range []Flavour{PTDS, PTSZ} {
		if strings.HasSuffix(symbol, "_"+string(f)) {
			return f
		}
	}
	return Plain
}

// since sets the first version of each call: the typedefs of one base name and flavour, by rising
// version, belong to its symbols by rising _vN. Where the two lists differ in length, signatures
// decide from the newest down, and what is left keeps 0.
func (h *Header) since(typedefs string) {
	type key struct {
		base    string
		flavour Flavour
	}
	type entry struct {
		version int
		abi     string
	}
	found := map[key][]entry{}
	declared := map[string]bool{}
	for _, c := range h.Calls {
		declared[c.Base()] = true
	}
	for _, m := range pfnTypedef.FindAllStringSubmatch(typedefs, -1) {
		params, err := parseParams(strings.Join(strings.Fields(m[4]), " "))
		if err != nil {
			continue
		}
		if !declared[m[1]] { // its header is in another package, as cudaProfiler.h
			declared[m[1]] = true
			h.Calls = append(h.Calls, Call{Symbol: m[1], Flavour: Plain, Params: params})
		}
		k := key{m[1], flavourOf("_" + strings.TrimPrefix(m[3], "_"))}
		n, _ := strconv.Atoi(m[2])
		found[k] = append(found[k], entry{n, h.ABI(params)})
	}
	calls := map[key][]*Call{}
	for i := range h.Calls {
		c := &h.Calls[i]
		k := key{c.Base(), c.Flavour}
		calls[k] = append(calls[k], c)
	}
	for k, cs := range calls {
		es := found[k]
		slices.SortFunc(es, func(a, b entry) int { return b.version - a.version })
		slices.SortFunc(cs, func(a, b *Call) int { return b.Version() - a.Version() })
		for _, c := range cs {
			for i, e := range es {
				if len(es) == len(cs) || e.abi == h.ABI(c.Params) {
					c.Since = e.version
					es = es[i+1:]
					cs = cs[1:]
					break
				}
			}
		}
	}
}

// ABI writes parameter types with the API's own typedefs resolved, so that a renamed version of the
// same type does not look like a change.
func (h *Header) ABI(params []Param) string {
	var parts []string
	for _, p := range params {
		words := strings.Fields(p.Type)
		for i, w := range words {
			words[i] = h.resolve(w)
		}
		parts = append(parts, strings.Join(words, " "))
	}
	return strings.Join(parts, ", ")
}

func (h *Header) resolve(name string) string {
	for range 8 {
		to, ok := h.Alias[name]
		if !ok || h.Kinds[to] == "" && h.Alias[to] == "" {
			break
		}
		name = to
	}
	return versionSuffix.ReplaceAllString(name, "")
}
