package main

import (
	"encoding"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/internal/conformance"
	"github.com/weirgpu/weir/internal/floors"
	"github.com/weirgpu/weir/scenario"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/jobs"
	"github.com/weirgpu/weir/train"
)

// ofBench are the types that weir bench prints: of a model, of a comparison and of a server.
var ofBench = []reflect.Type{reflect.TypeFor[benchResult](), reflect.TypeFor[comparison](),
	reflect.TypeFor[loadResult]()}

// jsonOf are the types of what commands print with --json.
var jsonOf = map[string][]reflect.Type{
	"weir account ls":        {reflect.TypeFor[auth.Accounts]()},
	"weir account token ls":  {reflect.TypeFor[auth.Tokens]()},
	"weir account token new": {reflect.TypeFor[auth.MadeToken]()},
	"weir audit show":        {reflect.TypeFor[auth.Records]()},
	"weir audit verify":      {reflect.TypeFor[auditReport]()},
	"weir bench":             ofBench,
	"weir cache ls":          {reflect.TypeFor[cacheList]()},
	"weir cache prune":       {reflect.TypeFor[cacheList]()},
	"weir demo":              {reflect.TypeFor[scenario.Result]()},
	"weir device list":       {reflect.TypeFor[deviceList]()},
	"weir doctor":            {reflect.TypeFor[diagnosis]()},
	"weir infer":             {reflect.TypeFor[inferResult]()},
	"weir model ls":          {reflect.TypeFor[modelList]()},
	"weir model push":        {reflect.TypeFor[server.Pushed]()},
	"weir inspect":           {reflect.TypeFor[inspectResult]()},
	"weir job logs":          {reflect.TypeFor[jobs.Lines]()},
	"weir job ls":            {reflect.TypeFor[jobs.List]()},
	"weir job run":           {reflect.TypeFor[jobs.Job]()},
	"weir job show":          {reflect.TypeFor[jobs.Job]()},
	"weir job wait":          {reflect.TypeFor[jobs.Job]()},
	"weir model new":         {reflect.TypeFor[modelResult]()},
	"weir optimize":          {reflect.TypeFor[optimizeResult]()},
	"weir freeze":            {reflect.TypeFor[agent.FreezeReport]()},
	"weir cluster simulate":  {reflect.TypeFor[clusterResult]()},
	"weir policies":          {reflect.TypeFor[policyList]()},
	"weir policy":            {reflect.TypeFor[policySet]()},
	"weir run":               {reflect.TypeFor[runResult]()},
	"weir set":               {reflect.TypeFor[shareInfo]()},
	"weir share":             {reflect.TypeFor[scenario.Result]()},
	"weir simulate":          {reflect.TypeFor[scenario.Result]()},
	"weir thaw":              {reflect.TypeFor[agent.FreezeReport]()},
	"weir top":               {reflect.TypeFor[agent.Snapshot]()},
	"weir train":             {reflect.TypeFor[train.Result]()},
	"weir train plan":        {reflect.TypeFor[train.Forecast]()},
	"weir tune":              {reflect.TypeFor[tuneResult]()},
	"weir up":                {reflect.TypeFor[upInfo]()},
	"weir verify":            {reflect.TypeFor[conformance.Report]()},
	"weir version":           {reflect.TypeFor[versionInfo]()},
}

// fieldsOf are what the fields of types say of themselves, by package and then type.field. Nil
// leaves that out.
type fieldsOf map[string]map[string]string

// printedBy lists the fields that a command prints with --json, in order: those in a list have []
// behind its name, those in an object whose keys are names a *.
func (d fieldsOf) printedBy(t testing.TB, command string) []topic {
	t.Helper()
	if len(jsonOf[command]) == 0 {
		t.Errorf("%s has --json, and no type of what it prints", command)
	}
	var list []topic
	for _, typ := range jsonOf[command] {
		d.walk(t, []reflect.Type{typ}, "", func(path string, x topic) {
			x.word = path
			if !slices.ContainsFunc(list, func(o topic) bool { return o.word == path }) {
				list = append(list, x)
			}
		})
	}
	return list
}

// sameFields is the first command, by name, that prints what this one does.
func sameFields(command string) string {
	for _, other := range slices.Sorted(maps.Keys(jsonOf)) {
		if slices.Equal(jsonOf[other], jsonOf[command]) {
			return other
		}
	}
	return command
}

var (
	text   = reflect.TypeFor[encoding.TextMarshaler]()
	custom = reflect.TypeFor[json.Marshaler]()
)

// walk visits the fields of a type as package json writes them: of the last of types, which it is
// in. Those of a type in itself are visited once.
func (d fieldsOf) walk(t testing.TB, types []reflect.Type, under string,
	visit func(string, topic)) {
	typ := types[len(types)-1]
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	for field := range typ.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous && name == "" {
			d.walk(t, append(types, field.Type), under, visit)
			continue
		}
		if name == "-" || !field.IsExported() {
			continue
		}
		if name == "" {
			name = field.Name
		}
		path, of := under+name, field.Type
		kind := kindOf(&path, &of)
		visit(path, topic{means: strings.TrimSuffix(kind+": "+d.comment(t, typ, field.Name), ": ")})
		if kind == "object" && !slices.Contains(types, of) {
			d.walk(t, append(types, of), path+".", visit)
		}
	}
}

// kindOf names the kind of a value in JSON, and adds to the path what is between it and the type
// that it leaves, of one element.
func kindOf(path *string, of *reflect.Type) string {
	for {
		t := *of
		switch {
		case t == reflect.TypeFor[time.Duration]():
			return "nanoseconds"
		case t.Implements(text) || reflect.PointerTo(t).Implements(text):
			return "text"
		case t.Implements(custom) || reflect.PointerTo(t).Implements(custom):
			return "value"
		}
		switch t.Kind() {
		case reflect.Pointer:
		case reflect.Slice, reflect.Array:
			*path += "[]"
		case reflect.Map:
			*path += ".*"
		case reflect.Struct:
			return "object"
		case reflect.String:
			return "text"
		case reflect.Bool:
			return "true or false"
		case reflect.Interface:
			return "value"
		default:
			return "number"
		}
		*of = t.Elem()
	}
}

// comment is what a field says of itself in the sources, "" where that is nothing.
func (d fieldsOf) comment(t testing.TB, typ reflect.Type, field string) string {
	t.Helper()
	path := typ.PkgPath()
	if path == "" || d == nil {
		return ""
	}
	if d[path] == nil {
		d[path] = map[string]string{}
		below, ours := floors.Within(path)
		if path == "main" || strings.HasSuffix(path, "cmd/weir") {
			below, ours = "cmd/weir", true
		}
		if ours {
			d.read(t, path, filepath.Join(root, below))
		}
	}
	return d[path][typ.Name()+"."+field]
}

// read takes the comments of a package's fields.
func (d fieldsOf) read(t testing.TB, path, folder string) {
	t.Helper()
	//lint:ignore SA1019 build tags do not matter: fields are alike in all files of a name
	packages, err := parser.ParseDir(token.NewFileSet(), folder, func(f fs.FileInfo) bool {
		return !strings.HasSuffix(f.Name(), "_test.go")
	}, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packages {
		ast.Inspect(p, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					said := strings.Join(strings.Fields(f.Doc.Text()+" "+f.Comment.Text()), " ")
					for _, name := range f.Names {
						d[path][spec.Name.Name+"."+name.Name] = said
					}
				}
			}
			return true
		})
	}
}

// undocumented lists the fields of a decoded value that a command is not said to print.
func undocumented(t testing.TB, command string, value any) []string {
	known := map[string]bool{}
	for _, x := range fieldsOf(nil).printedBy(t, command) {
		known[x.word] = true
	}
	var bad []string
	var visit func(path string, v any)
	visit = func(path string, v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				visit(path+"[]", e)
			}
		case map[string]any:
			for key, e := range v {
				at := strings.TrimPrefix(path+"."+key, ".")
				if any := path + ".*"; knows(known, any) {
					at = any
				}
				if knows(known, at) {
					visit(at, e)
				} else if !open(known, path) && !slices.Contains(bad, at) {
					bad = append(bad, at)
				}
			}
		}
	}
	visit("", value)
	return bad
}

// knows reports whether a field is known, or one in it.
func knows(known map[string]bool, path string) bool {
	if known[path] {
		return true
	}
	for k := range known {
		if rest, ok := strings.CutPrefix(k, path); ok && strings.HasPrefix(rest, "[]") ||
			ok && strings.HasPrefix(rest, ".") {
			return true
		}
	}
	return false
}

// open reports whether a field is a value whose own fields nobody lists, such as the values of a
// tensor.
func open(known map[string]bool, path string) bool {
	for k := range known {
		if strings.HasPrefix(k, path+".") {
			return false
		}
	}
	return known[path]
}

// TestFieldsAreFound holds what counts as a field that is not listed.
func TestFieldsAreFound(t *testing.T) {
	var v any
	text := `{"version": "1", "more": 2}`
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(undocumented(t, "weir version", v)); got != "[more]" {
		t.Errorf("of %s: %s", text, got)
	}
	text = `{"dir": "d", "entries": [{"file": "f", "colour": 1}]}`
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(undocumented(t, "weir cache ls", v)); got != "[entries[].colour]" {
		t.Errorf("of %s: %s", text, got)
	}
}
