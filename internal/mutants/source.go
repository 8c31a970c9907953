package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Mutant is one change of one function.
type Mutant struct {
	File string `json:"file"` // below the module's root, with slashes
	Line int    `json:"line"`
	Func string `json:"func"` // the function or variable at package level that holds the change
	Kind string `json:"kind"`
	From string `json:"from"` // source text, "" for an early return
	To   string `json:"to"`
	Nth  int    `json:"nth"` // which of equal changes of the function, from 1

	number     int // what the environment variable says to choose it, from 1
	fn         *function
	start, end int
}

// ID names a mutant by what it changes and not by its line, so that a list of them stays valid when
// code moves.
func (m *Mutant) ID() string {
	from := strings.Join(strings.Fields(m.From), " ")
	to := strings.Join(strings.Fields(m.To), " ")
	if m.Kind == Removed {
		to = "{}"
	}
	return fmt.Sprintf("%s %s %s #%d: %s => %s", m.File, m.Func, m.Kind, m.Nth, from, to)
}

// function is a body that can be replaced: of a declaration, or of a literal at package level.
type function struct {
	file    *sourceFile
	body    *ast.BlockStmt
	results *ast.FieldList
	mutants []*Mutant
	number  int // what a test that reaches it writes down
}

type sourceFile struct {
	path   string // on disk
	name   string // below the module's root
	text   []byte
	syntax *ast.File
	pos    *token.File
}

// Source is a package's files and the changes that they allow.
type Source struct {
	Mutants []*Mutant // all, by kind's order in the files

	path  string // import path
	name  string
	files []*sourceFile
	equal map[string]int // how many changes have an ID but for its number
	// importer finds what the package imports.
	importer types.Importer
}

// Environment variables of a test: what chooses a mutant, where 0 or nothing chooses none and
// [observe] writes the numbers of the functions that the test reaches to a file.
const (
	variable = "WEIR_MUTANT"
	reached  = "WEIR_MUTANT_REACHED"
	observe  = -1
)

// chooser is the file that is added to each changed package.
const chooser = `package %s

import (
	"os"
	"strconv"
	"sync"
)

var mutant__, _ = strconv.Atoi(os.Getenv("` + variable + `"))

var reached__ sync.Map

func reach__(n int) {
	if _, again := reached__.LoadOrStore(n, true); again {
		return
	}
	f, err := os.OpenFile(os.Getenv("` + reached + `"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(strconv.Itoa(n) + "\n")
		_ = f.Close()
	}
	if err != nil {
		panic(err)
	}
}
`

// Load reads the files of a package, of which those are changed whose base names match one of the
// patterns ([path.Match]), or all.
func Load(p *listed, root string, patterns []string, imp types.Importer) (*Source, error) {
	s := &Source{path: p.ImportPath, name: p.Name, importer: imp, equal: map[string]int{}}
	fset := token.NewFileSet()
	for _, base := range p.GoFiles {
		f := &sourceFile{path: filepath.Join(p.Dir, base)}
		rel, err := filepath.Rel(root, f.path)
		if err != nil {
			return nil, err
		}
		f.name = filepath.ToSlash(rel)
		if f.text, err = os.ReadFile(f.path); err != nil {
			return nil, err
		}
		mode := parser.ParseComments | parser.SkipObjectResolution
		if f.syntax, err = parser.ParseFile(fset, f.path, f.text, mode); err != nil {
			return nil, err
		}
		f.pos = fset.File(f.syntax.FileStart)
		s.files = append(s.files, f)
		if matches(base, patterns) && !ast.IsGenerated(f.syntax) {
			s.find(f)
		}
	}
	return s, nil
}

func matches(base string, patterns []string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, base)
		return err == nil && ok
	})
}

// find lists the changes of a file.
func (s *Source) find(f *sourceFile) {
	for _, d := range f.syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Body != nil {
				s.function(f, nameOf(d), d.Body, d.Type.Results)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok {
					s.literals(f, v)
				}
			}
		}
	}
}

// nameOf is a function's name, a method's behind that of its type.
func nameOf(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	t := d.Recv.List[0].Type
	for {
		switch of := t.(type) {
		case *ast.StarExpr:
			t = of.X
		case *ast.IndexExpr:
			t = of.X
		case *ast.IndexListExpr:
			t = of.X
		default:
			return fmt.Sprintf("%s.%s", t, d.Name.Name)
		}
	}
}

// literals lists the changes of functions in a variable's value.
func (s *Source) literals(f *sourceFile, v *ast.ValueSpec) {
	for _, value := range v.Values {
		ast.Inspect(value, func(n ast.Node) bool {
			lit, ok := n.(*ast.FuncLit)
			if ok {
				s.function(f, v.Names[0].Name, lit.Body, lit.Type.Results)
			}
			return !ok
		})
	}
}

func (s *Source) function(f *sourceFile, name string, body *ast.BlockStmt, r *ast.FieldList) {
	if recovers(body) {
		return
	}
	fn := &function{file: f, body: body, results: r}
	w := &sites{file: f.pos, text: f.text}
	w.report = func(kind string, start, end int, to string) {
		s.Mutants = append(s.Mutants, &Mutant{
			File: f.name, Line: f.pos.Line(f.pos.Pos(start)), Func: name, Kind: kind,
			From: string(f.text[start:end]), To: to, fn: fn, start: start, end: end,
		})
	}
	before := len(s.Mutants)
	w.walk(body, r)
	for _, m := range s.Mutants[before:] {
		id := m.ID()
		s.equal[id]++
		m.Nth = s.equal[id]
	}
}

// Draw chooses n mutants that compile, or all if there are fewer, kinds in turn. A mutant's place
// in the draw is a hash of the seed and its ID, so that a change of the code moves no other mutant.
func (s *Source) Draw(n int, seed uint64) ([]*Mutant, error) {
	byKind, kinds := s.shuffled(seed)
	next := func() (more []*Mutant) {
		for _, kind := range kinds {
			if list := byKind[kind]; len(list) > 0 {
				more, byKind[kind] = append(more, list[0]), list[1:]
			}
		}
		return more
	}
	var chosen []*Mutant
	for more := next(); len(more) > 0 && len(chosen) < n; {
		for ; len(more) > 0 && len(chosen) < n; more = next() {
			chosen = append(chosen, more[:min(len(more), n-len(chosen))]...)
		}
		var err error
		if chosen, err = s.check(chosen); err != nil {
			return nil, err
		}
	}
	return chosen, nil
}

// shuffled are the mutants of each kind, and the kinds, in an order that the seed and they give.
func (s *Source) shuffled(seed uint64) (byKind map[string][]*Mutant, kinds []string) {
	place := func(what string) string {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", seed, what))
		return string(sum[:])
	}
	byKind = map[string][]*Mutant{}
	for _, m := range s.Mutants {
		byKind[m.Kind] = append(byKind[m.Kind], m)
	}
	for _, list := range byKind {
		slices.SortFunc(list, func(a, b *Mutant) int {
			return strings.Compare(place(a.ID()), place(b.ID()))
		})
	}
	return byKind, slices.SortedFunc(slices.Values(Kinds), func(a, b string) int {
		return strings.Compare(place(s.path+a), place(s.path+b))
	})
}

// number gives the mutants of a run and their functions their numbers.
func number(all []*Mutant) {
	for i, m := range all {
		m.number, m.fn.number = i+1, i+1
	}
}

// attach hangs mutants on their functions, in place of those before.
func (s *Source) attach(list []*Mutant) {
	for _, m := range s.Mutants {
		m.fn.mutants = nil
	}
	for _, m := range list {
		m.fn.mutants = append(m.fn.mutants, m)
	}
}

// check returns those of the mutants that compile. It fails if the package does not without them.
func (s *Source) check(list []*Mutant) ([]*Mutant, error) {
	number(list)
	s.attach(list)
	fset := token.NewFileSet()
	bad := map[*Mutant]bool{}
	var files []*ast.File
	var failed error
	where := map[string][]span{}
	for _, f := range s.files {
		text, spans := s.changed(f)
		where[f.path] = spans
		parsed, err := parser.ParseFile(fset, f.path, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, parsed)
	}
	added, err := parser.ParseFile(fset, "", fmt.Sprintf(chooser, s.name), 0)
	if err != nil {
		return nil, err
	}
	config := types.Config{Importer: s.importer, Error: func(err error) {
		e, ok := err.(types.Error)
		at := fset.Position(e.Pos)
		for _, sp := range where[at.Filename] {
			if ok && sp.start <= at.Offset && at.Offset < sp.end {
				bad[sp.mutant] = true
				return
			}
		}
		failed = err
	}}
	_, _ = config.Check(s.path, fset, append(files, added), nil)
	return slices.DeleteFunc(slices.Clone(list), func(m *Mutant) bool { return bad[m] }), failed
}

// span is where a mutant's copy of a function lies in a changed file.
type span struct {
	mutant     *Mutant
	start, end int
}

// changed is a file whose functions begin with the choice of their mutants.
func (s *Source) changed(f *sourceFile) ([]byte, []span) {
	fns := s.changedIn(f)
	var out bytes.Buffer
	var spans []span
	last := 0
	for _, at := range slices.Sorted(maps.Keys(fns)) {
		out.Write(f.text[last:at])
		fmt.Fprintf(&out, " if mutant__ == %d { reach__(%d) }\n", observe, fns[at].number)
		for _, m := range fns[at].mutants {
			begin := out.Len()
			out.WriteString(fns[at].choice(m))
			spans = append(spans, span{m, begin, out.Len()})
		}
		last = at
	}
	out.Write(f.text[last:])
	return out.Bytes(), spans
}

// changedIn are the functions of a file that have mutants, by where their bodies begin.
func (s *Source) changedIn(f *sourceFile) map[int]*function {
	fns := map[int]*function{}
	for _, m := range s.Mutants {
		if m.fn.file == f && len(m.fn.mutants) > 0 {
			fns[f.pos.Offset(m.fn.body.Lbrace)+1] = m.fn
		}
	}
	return fns
}

// choice is the statement that runs a mutant's copy of the body in the body's place.
func (fn *function) choice(m *Mutant) string {
	f := fn.file
	start, end := f.pos.Offset(fn.body.Pos()), f.pos.Offset(fn.body.End())
	body := string(f.text[start:m.start]) + m.To + string(f.text[m.end:end])
	if fn.results == nil {
		return fmt.Sprintf(" if mutant__ == %d { func() %s(); return }\n", m.number, body)
	}
	results := f.text[f.pos.Offset(fn.results.Pos()):f.pos.Offset(fn.results.End())]
	return fmt.Sprintf(" if mutant__ == %d { return func() %s %s() }\n", m.number, results, body)
}
