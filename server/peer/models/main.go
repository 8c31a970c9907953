// Command models writes a folder of small models under the names that the examples of NVIDIA's
// Triton Inference Server ask for: sums and differences of numbers and of strings, sequences, and
// stand-ins for larger ones with their inputs and outputs; and an ensemble.
//
//	go run ./server/peer/models FOLDER
//
// Meet first: the folder text, which has the graph and the configuration of each.
//
// Concurrency: none.
//
// What it refuses: a folder that cannot be written to.
package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
)

//go:embed text
var texts embed.FS

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "models:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("give the folder to write")
	}
	all, err := texts.ReadDir("text")
	if err != nil {
		return err
	}
	for _, e := range all {
		if name, ok := strings.CutSuffix(e.Name(), ".pbtxt"); ok {
			if err := write(args[0], name); err != nil {
				return fmt.Errorf("model %s: %w", name, err)
			}
		}
	}
	return nil
}

// write writes one model and its configuration. An ensemble has no graph.
func write(folder, name string) error {
	version := filepath.Join(folder, name, "1")
	if err := os.MkdirAll(version, 0o755); err != nil {
		return err
	}
	text, err := texts.ReadFile(path.Join("text", name+".txt"))
	if err == nil {
		err = writeGraph(filepath.Join(version, "model.onnx"), string(text))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	config, err := texts.ReadFile(path.Join("text", name+".pbtxt"))
	if err != nil {
		return err
	}
	head := fmt.Sprintf("name: %q\n", name)
	return os.WriteFile(filepath.Join(folder, name, "config.pbtxt"),
		append([]byte(head), config...), 0o644)
}

// writeGraph writes a graph as a model's file.
func writeGraph(path, text string) error {
	g, err := graph.Parse(text)
	if err != nil {
		return err
	}
	return onnx.WriteFile(path, g, onnx.WriteOptions{})
}
