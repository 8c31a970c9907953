package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/server/jobs"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/tensor/npy"
)

// manyDigits is a file with n rows for the classifier.
func manyDigits(t *testing.T, n int) string {
	t.Helper()
	images, err := digits.Images()
	if err != nil {
		t.Fatal(err)
	}
	var pixels []float32
	for i := range n {
		pixels = append(pixels, digits.Input(images[i%len(images)])...)
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create("image.npy")
	if err == nil {
		err = npy.Write(w, tensor.From(pixels, n, 1, 8, 8))
	}
	path := filepath.Join(t.TempDir(), "data.npz")
	if err = errors.Join(err, z.Close(), os.WriteFile(path, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// arrayShape is the shape of an array in a file.
func arrayShape(t *testing.T, path string) []int {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	x, err := npy.Read(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return x.Shape
}

// TestJobRun: a job that is handed in brings its result; given again with its key it is the same.
func TestJobRun(t *testing.T) {
	file := manyDigits(t, 50)
	printed, end := up(t, "--json", "--no-cache", "--state", t.TempDir())
	t.Setenv(serverVariable, answering(t, printed))
	args := []string{"job", "run", "batch", "--model", "digits", "--input", file, "--key", "k",
		"--out", "results", "--json"}
	got := done(t, args...).object(t, "id", "name", "state", "done_rows")
	if got["state"] != "done" || got["done_rows"] != 50.0 {
		t.Errorf("got %v", got)
	}
	if s := arrayShape(t, filepath.Join("results", "probabilities.npy")); s[0] != 50 {
		t.Errorf("the result is %v", s)
	}
	if again := done(t, args...).object(t); again["id"] != got["id"] {
		t.Errorf("with its key it is %v", again)
	}
	done(t, "job", "wait", "1", "--out", "all.npz")
	if z, err := zip.OpenReader("all.npz"); err != nil || len(z.File) != 1 {
		t.Errorf("all.npz: %v", err)
	}
	done(t, "job", "ls", "--json").object(t, "jobs")
	done(t, "job", "logs", "1", "--json").object(t, "lines")
	if left, err := filepath.Glob(".results*"); len(left) > 0 || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
	if code := end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestJobRefusals: what is wrong, each with what to do.
func TestJobRefusals(t *testing.T) {
	file := manyDigits(t, 2)
	noFolder := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(noFolder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	printed, _ := up(t, "--json", "--no-cache")
	t.Setenv(serverVariable, answering(t, printed))
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"run", "train"}, 2, "there is batch"},
		{[]string{"run", "batch"}, 2, "give both"},
		{[]string{"run", "batch", "--model", "m", "--input", "none"}, 2, "no such file"},
		{[]string{"run", "batch", "--model", "m", "--input", file, "--out", noFolder}, 2,
			"name one, or a file"},
		{[]string{"run", "batch", "--model", "digits", "--input", file}, 1,
			"weir up --state FOLDER"},
		{[]string{"ls"}, 1, "weir up --state FOLDER"},
		{[]string{"show", "x"}, 2, "give its number"},
	} {
		got := weir(t, append([]string{"job"}, c.args...)...)
		if got.code != c.code || !strings.Contains(got.talk, c.says) {
			t.Errorf("job %v: exit code %d, %s; want %d and %q", c.args, got.code, got.talk,
				c.code, c.says)
		}
	}
}

// TestJobKept: a job is there after the server's end, and its result too.
func TestJobKept(t *testing.T) {
	file, state := manyDigits(t, 20), t.TempDir()
	for i, args := range [][]string{{"job", "run", "batch", "--model", "digits", "--input", file,
		"--wait", "--json"}, {"job", "show", "1", "--json"}} {
		printed, end := up(t, "--json", "--no-cache", "--state", state)
		t.Setenv(serverVariable, answering(t, printed))
		var j jobs.Job
		if err := json.Unmarshal([]byte(done(t, args...).out), &j); err != nil ||
			j.State != jobs.Done || j.ID != 1 {
			t.Errorf("start %d: %+v, %v", i, j, err)
		}
		if i == 1 {
			done(t, "job", "wait", "1", "--out", "later")
		}
		if code := end(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
}

// TestJobWidths holds that what is printed of jobs fits lines of 40 and of 80 columns.
func TestJobWidths(t *testing.T) {
	t.Setenv("LC_ALL", "C")
	file := manyDigits(t, 20)
	printed, _ := up(t, "--json", "--no-cache", "--state", t.TempDir())
	t.Setenv(serverVariable, answering(t, printed))
	for i, width := range []string{"40", "80"} {
		t.Setenv("COLUMNS", width)
		id := []string{"1", "2"}[i]
		for _, args := range [][]string{{"run", "batch", "--model", "digits", "--input", file},
			{"wait", id}, {"ls"}, {"show", id}, {"logs", id, "-f"}, {"rm", id}} {
			got := done(t, append([]string{"job"}, args...)...)
			fits(t, strings.Join(args, " "), got.out+got.talk, 40*(i+1), nil)
		}
		got := weir(t, "job", "cancel", id)
		if got.code != 1 || !strings.Contains(strings.Join(strings.Fields(got.talk), " "),
			"there is no such job") {
			t.Errorf("cancel: %s", got.talk)
		}
		fits(t, "cancel", got.talk, 40*(i+1), nil)
	}
}
