package inferencepb

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weirgpu/weir/internal/generated"
)

// TestGeneratedFilesAreCurrent: go generate was run since the .proto files were changed.
func TestGeneratedFilesAreCurrent(t *testing.T) { generated.Current(t) }

// TestCompiled: the committed code says the same as the .proto files, without the go command.
func TestCompiled(t *testing.T) {
	c := protocompile.Compiler{Resolver: &protocompile.SourceResolver{
		ImportPaths: []string{"../../.."}}}
	const folder = "server/oip/inferencepb/"
	files, err := c.Compile(context.Background(), folder+"config.proto", folder+"inference.proto")
	if err != nil {
		t.Fatal(err)
	}
	got := table(File_server_oip_inferencepb_config_proto,
		File_server_oip_inferencepb_inference_proto)
	if want := table(files[0], files[1]); got != want {
		t.Errorf("the code says\n%s\nand the files say\n%s", got, want)
	}
}

var update = flag.Bool("update", false, "write testdata/fields.txt")

// TestNumbers: names, numbers and types, on which clients rely, are those of the file: what changes
// it breaks them. server/peer/descriptors.py holds them against those in tritonclient's wheel.
func TestNumbers(t *testing.T) {
	const path = "testdata/fields.txt"
	got := table(File_server_oip_inferencepb_config_proto,
		File_server_oip_inferencepb_inference_proto)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the protocol has changed; if it was meant, -update writes %s", path)
	}
}

// table is what files define, a line each, sorted.
func table(files ...protoreflect.FileDescriptor) string {
	var lines []string
	for _, f := range files {
		lines = messages(lines, f.Messages())
		lines = enums(lines, f.Enums())
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			for j := range s.Methods().Len() {
				m := s.Methods().Get(j)
				lines = append(lines, fmt.Sprintf("rpc %s %s %s %v %v", m.FullName(),
					m.Input().FullName(), m.Output().FullName(), m.IsStreamingClient(),
					m.IsStreamingServer()))
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

func messages(lines []string, all protoreflect.MessageDescriptors) []string {
	for i := range all.Len() {
		m := all.Get(i)
		lines = append(lines, fmt.Sprintf("message %s", m.FullName()))
		for j := range m.Fields().Len() {
			lines = append(lines, field(m.Fields().Get(j)))
		}
		lines = enums(messages(lines, m.Messages()), m.Enums())
	}
	return lines
}

func field(f protoreflect.FieldDescriptor) string {
	of, in := "-", "-"
	switch f.Kind() {
	case protoreflect.MessageKind:
		of = string(f.Message().FullName())
	case protoreflect.EnumKind:
		of = string(f.Enum().FullName())
	}
	if o := f.ContainingOneof(); o != nil {
		in = string(o.Name())
	}
	return fmt.Sprintf("field %s %d %s %s %s %s", f.FullName(), f.Number(), f.Cardinality(),
		f.Kind(), of, in)
}

func enums(lines []string, all protoreflect.EnumDescriptors) []string {
	for i := range all.Len() {
		e := all.Get(i)
		for j := range e.Values().Len() {
			v := e.Values().Get(j)
			lines = append(lines, fmt.Sprintf("value %s %s %d", e.FullName(), v.Name(), v.Number()))
		}
	}
	return lines
}
