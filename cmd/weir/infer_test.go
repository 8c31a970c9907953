package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/tensor/npy"
)

// TestInfer: a server gives the same answers, printed and in JSON, as weir run gives of the model
// itself, for inputs that are given and that are made up.
func TestInfer(t *testing.T) {
	model, err := filepath.Abs(filepath.Join(root, "examples", "digits", "digits.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	printed, _ := up(t, "--json", "--no-cache")
	url := answering(t, printed)
	t.Setenv(serverVariable, url)
	images, err := digits.Images()
	if err != nil {
		t.Fatal(err)
	}
	var picture bytes.Buffer
	x := tensor.From(digits.Input(images[0]), 1, 1, 8, 8)
	if err := npy.Write(&picture, x); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "picture.npy")
	labels := filepath.Join(dir, "labels.txt")
	for path, data := range map[string][]byte{file: picture.Bytes(),
		labels: []byte("zero\none\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n")} {
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, flags := range [][]string{{"--input", "image=" + file}, {"--seed", "7"},
		{"--shape", "image=1x1x8x8", "--labels", labels},
		{"--input", "image=" + file, "--top", "3"}} {
		here := done(t, append([]string{"run", model, "--no-cache"}, flags...)...)
		there := done(t, append([]string{"infer", "digits"}, flags...)...)
		if here.out != there.out || !strings.Contains(there.talk, "digits, version 1, answered") {
			t.Errorf("%v: run prints\n%sinfer\n%s%s", flags, here.out, there.out, there.talk)
		}
		if made := strings.Contains(there.talk, "made up: image"); made ==
			slices.Contains(flags, "--input") {
			t.Errorf("%v: it says %s", flags, there.talk)
		}
		a := done(t, append([]string{"run", model, "--no-cache", "--json"}, flags...)...)
		b := done(t, append([]string{"infer", "digits", "--json"}, flags...)...)
		if !tensorsEqual(outputOf(t, a), outputOf(t, b)) {
			t.Errorf("%v: %s and %s", flags, a.out, b.out)
		}
		b.object(t, "model", "version", "run_ms")
	}
	done(t, "infer", "digits", "--output", dir)
	if _, err := os.Stat(filepath.Join(dir, "probabilities.npy")); err != nil {
		t.Error(err)
	}
	for want, args := range map[string][]string{
		"unknown model":        {"infer", "others"},
		"version":              {"infer", "digits", "--version", "9"},
		"no input \"x\"":       {"infer", "digits", "--input", "x=[1]"},
		"does not answer":      {"infer", "digits", "--server", "http://localhost:1"},
		"--timeout":            {"infer", "digits", "--timeout", "0s"},
		"want standard output": {"infer", "digits", "--json", "--output", "-"},
	} {
		if c := weir(t, args...); c.code == 0 || !strings.Contains(c.talk, want) {
			t.Errorf("%v: exit code %d, %s; want %q", args, c.code, c.talk, want)
		}
	}
}

func tensorsEqual(a, b []any) bool {
	return slices.EqualFunc(a, b, func(x, y any) bool { return x == y })
}

// TestInferWidths holds that what is printed of an answer fits lines of 40 and of 80 columns.
func TestInferWidths(t *testing.T) {
	t.Setenv("LC_ALL", "C")
	printed, _ := up(t, "--json", "--no-cache")
	t.Setenv(serverVariable, answering(t, printed))
	for i, width := range []string{"40", "80"} {
		t.Setenv("COLUMNS", width)
		for _, args := range [][]string{{"infer", "digits"}, {"infer", "digits", "--top", "3"}} {
			got := done(t, args...)
			fits(t, strings.Join(args, " "), got.out+got.talk, 40*(i+1), nil)
		}
	}
}
