// Command generate writes the Go code of the messages in inference.proto and config.proto: it
// compiles them as protoc does and has protoc-gen-go, of the module's own version of protobuf, do
// the rest.
//
//	go generate ./server/oip/inferencepb
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const (
	root   = "../../../.." // of the module, from which the files import each other
	folder = "server/oip/inferencepb/"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: generate FOLDER")
	}
	if err := generate(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func generate(to string) error {
	request, err := compile("config.proto", "inference.proto")
	if err != nil {
		return err
	}
	in, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	plugin := exec.Command("go", "run", "google.golang.org/protobuf/cmd/protoc-gen-go")
	plugin.Stdin, plugin.Stderr = bytes.NewReader(in), os.Stderr
	out, err := plugin.Output()
	if err != nil {
		return fmt.Errorf("protoc-gen-go: %w", err)
	}
	var answer pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return fmt.Errorf("protoc-gen-go: %s", answer.GetError())
	}
	for _, f := range answer.File {
		path := filepath.Join(to, filepath.Base(f.GetName()))
		if err := os.WriteFile(path, []byte(f.GetContent()), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// compile makes of files what protoc would give to a plugin.
func compile(names ...string) (*pluginpb.CodeGeneratorRequest, error) {
	c := protocompile.Compiler{Resolver: &protocompile.SourceResolver{ImportPaths: []string{root}},
		SourceInfoMode: protocompile.SourceInfoStandard}
	request := &pluginpb.CodeGeneratorRequest{Parameter: proto.String("paths=source_relative"),
		CompilerVersion: &pluginpb.Version{Major: proto.Int32(3), Minor: proto.Int32(0),
			Patch: proto.Int32(0)}}
	for _, name := range names {
		files, err := c.Compile(context.Background(), folder+name)
		if err != nil {
			return nil, err
		}
		var d *descriptorpb.FileDescriptorProto = protodesc.ToFileDescriptorProto(files[0])
		request.ProtoFile = append(request.ProtoFile, d)
		request.FileToGenerate = append(request.FileToGenerate, folder+name)
	}
	return request, nil
}
