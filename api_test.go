package weir_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	compiled "go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/internal/floors"
)

// promised are the packages that docs/stability.md promises, below the module.
var promised = []string{"", "op", "share", "tensor", "tensor/npy"}

// parts are what is promised of other packages: how a program makes a policy of its own known.
var parts = map[string][]string{"share/policy": {"ErrRegister", "Own", "Register"}}

// open are packages whose types a promised package may name without promising them.
var open = []string{"device/compute"}

// apiFile lists what those packages export, a line each, as the last change of it was agreed to.
const apiFile = "docs/api.txt"

var update = flag.Bool("update", false, "write "+apiFile)

// TestAPI holds that what is promised is as docs/api.txt lists it, and says which programs a change
// breaks: those that use a line that is gone, or that implement an interface which grew.
func TestAPI(t *testing.T) {
	now := strings.Join(surface(t), "\n") + "\n"
	if *update {
		if err := os.WriteFile(apiFile, []byte(now), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(apiFile)
	if err != nil {
		t.Fatal(err)
	}
	broken, added := apiChanges(string(text), now)
	for _, line := range broken {
		t.Errorf("breaks programs: %s", line)
	}
	for _, line := range added {
		t.Errorf("new: %s", line)
	}
	if t.Failed() {
		t.Errorf("if that is meant: go test . -run TestAPI -update, and say so in the commit")
	}
}

// TestAPIChanges shows what counts as a break.
func TestAPIChanges(t *testing.T) {
	before := "a func F(int)\na type I interface\na method I.M()\na type S struct\n"
	for name, test := range map[string]struct {
		now           string
		broken, added []string
	}{
		"nothing":        {before, nil, nil},
		"a new function": {before + "a func G()\n", nil, []string{"a func G()"}},
		"another parameter": {strings.Replace(before, "(int)", "(string)", 1),
			[]string{"a func F(int)"}, []string{"a func F(string)"}},
		"an interface grows": {before + "a method I.N()\n", []string{"a method I.N()"}, nil},
		"a struct grows":     {before + "a field S.X int\n", nil, []string{"a field S.X int"}},
		"a new interface": {before + "a type J interface\na method J.M()\n", nil,
			[]string{"a type J interface", "a method J.M()"}},
	} {
		broken, added := apiChanges(before, test.now)
		if !slices.Equal(broken, test.broken) || !slices.Equal(added, test.added) {
			t.Errorf("%s: breaks %q, adds %q; want %q, %q", name, broken, added, test.broken,
				test.added)
		}
	}
}

// apiChanges tells of two lists of lines what is gone or breaks who implements it, and what is new.
func apiChanges(before, now string) (broken, added []string) {
	old := strings.Split(strings.TrimSuffix(before, "\n"), "\n")
	current := strings.Split(strings.TrimSuffix(now, "\n"), "\n")
	for _, line := range old {
		if !slices.Contains(current, line) {
			broken = append(broken, line)
		}
	}
	for _, line := range current {
		if slices.Contains(old, line) {
			continue
		}
		owner, _, _ := strings.Cut(strings.Replace(line, " method ", " type ", 1), ".")
		if strings.Contains(line, " method ") && slices.Contains(old, owner+" interface") {
			broken = append(broken, line)
		} else {
			added = append(added, line)
		}
	}
	return broken, added
}

// surface returns what is promised, sorted, and complains about types that are not: nobody could
// name those for long.
func surface(t *testing.T) []string {
	imports := exported(t)
	a := api{t: t, names: map[string]string{}}
	for _, path := range promised {
		a.enter(imports, path)
		for _, name := range a.pkg.Scope().Names() {
			if o := a.pkg.Scope().Lookup(name); o.Exported() {
				a.object(o)
			}
		}
	}
	for path, names := range parts {
		a.enter(imports, path)
		for _, name := range names {
			a.names[a.pkg.Path()+"."+name] = a.pkg.Name() + "." + name
			a.object(a.pkg.Scope().Lookup(name))
		}
	}
	for i, line := range a.lines {
		for theirs, ours := range a.names {
			line = strings.ReplaceAll(line, theirs, ours)
		}
		a.lines[i] = line
		if strings.Contains(line, floors.Module) {
			t.Errorf("not promised, and named by what is: %s", line)
		}
	}
	slices.Sort(a.lines)
	return a.lines
}

// exported returns an importer of what the compiler wrote of the promised packages and of all that
// they import.
func exported(t *testing.T) types.Importer {
	args := []string{"list", "-deps", "-export", "-json=ImportPath,Export"}
	for _, path := range slices.AppendSeq(slices.Clone(promised), maps.Keys(parts)) {
		args = append(args, "./"+path)
	}
	list := goCommand(args...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct{ ImportPath, Export string }
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		files[p.ImportPath] = p.Export
	}
	return compiled.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(files[path])
	})
}

// api writes exported objects as lines.
type api struct {
	t     *testing.T
	pkg   *types.Package
	path  string
	lines []string
	names map[string]string // of types, by the names that they have where they are not promised
}

func (a *api) enter(imports types.Importer, path string) {
	p, err := imports.Import(strings.TrimSuffix(floors.Module+"/"+path, "/"))
	if err != nil {
		a.t.Fatal(err)
	}
	a.pkg, a.path = p, cmp.Or(path, "weir")
}

func (a *api) add(format string, args ...any) {
	a.lines = append(a.lines, a.path+" "+fmt.Sprintf(format, args...))
}

// written is a type as a user writes it, with the name of each package but the type's own, and the
// whole path of one that is not promised.
func (a *api) written(typ types.Type) string {
	return types.TypeString(typ, func(p *types.Package) string {
		path, ours := floors.Within(p.Path())
		switch {
		case p == a.pkg && parts[path] == nil:
			return ""
		case ours && !slices.Contains(promised, path) && !slices.Contains(open, path):
			return p.Path()
		}
		return p.Name()
	})
}

func (a *api) object(o types.Object) {
	switch o := o.(type) {
	case *types.Const:
		a.add("const %s %s = %s", o.Name(), a.written(o.Type()), o.Val())
	case *types.Var:
		a.add("var %s %s", o.Name(), a.written(o.Type()))
	case *types.Func:
		a.add("func %s%s", o.Name(), strings.TrimPrefix(a.written(o.Type()), "func"))
	case *types.TypeName:
		a.typeName(o)
	}
}

// typeName writes a type, the fields of a struct and the methods that can be called. Another name
// for a type that is not promised promises it under that name.
func (a *api) typeName(o *types.TypeName) {
	if o.IsAlias() {
		named, ok := types.Unalias(o.Type()).(*types.Named)
		path, ours := "", false
		if ok {
			path, ours = floors.Within(named.Obj().Pkg().Path())
		}
		if !ours || slices.Contains(promised, path) {
			a.add("type %s = %s", o.Name(), a.written(types.Unalias(o.Type())))
			return
		}
		a.names[named.Obj().Pkg().Path()+"."+named.Obj().Name()] = a.pkg.Name() + "." + o.Name()
	}
	switch u := o.Type().Underlying().(type) {
	case *types.Struct:
		a.add("type %s struct", o.Name())
		for f := range u.Fields() {
			if f.Exported() {
				a.add("field %s.%s %s", o.Name(), f.Name(), a.written(f.Type()))
			}
		}
	case *types.Interface:
		if u.IsMethodSet() {
			a.add("type %s interface", o.Name())
		} else {
			a.add("type %s %s", o.Name(), a.written(u))
		}
	default:
		a.add("type %s %s", o.Name(), a.written(u))
	}
	a.methods(o)
}

func (a *api) methods(o *types.TypeName) {
	of := o.Type()
	if !types.IsInterface(of) {
		of = types.NewPointer(of)
	}
	byValue := types.NewMethodSet(o.Type())
	for m := range types.NewMethodSet(of).Methods() {
		f := m.Obj().(*types.Func)
		if !f.Exported() {
			continue
		}
		receiver := o.Name()
		if byValue.Lookup(f.Pkg(), f.Name()) == nil {
			receiver = "(*" + receiver + ")"
		}
		a.add("method %s.%s%s", receiver, f.Name(),
			strings.TrimPrefix(a.written(m.Type()), "func"))
	}
}
