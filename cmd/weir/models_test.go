package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// folderOf is a folder with the digits as version 1 of the model mine, and the path of its file.
func folderOf(t *testing.T) (folder, path string) {
	t.Helper()
	model, err := os.ReadFile(filepath.Join(root, "examples", "digits", "digits.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	folder = t.TempDir()
	path = filepath.Join(folder, "mine", "1", "model.onnx")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, model, 0o600); err != nil {
		t.Fatal(err)
	}
	return folder, path
}

// TestModelLife: the commands about a server's models do what they say, against a server.
func TestModelLife(t *testing.T) {
	folder, path := folderOf(t)
	printed, _ := up(t, "--json", "--no-cache", "--models", folder)
	var at struct{ HTTP string }
	if err := json.NewDecoder(printed).Decode(&at); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"ls"}, 0, "mine   1        READY"},
		{[]string{"ls", "--json"}, 0, `"state": "READY"`},
		{[]string{"push", "mine", path}, 0, "model mine has version 2"},
		{[]string{"ls", "--json"}, 0, `"version": "1"`},
		{[]string{"load", "mine"}, 0, "model mine is loaded"},
		{[]string{"ls", "--json"}, 0, `"version": "2"`},
		{[]string{"rollback", "mine"}, 0, "model mine is rolled back"},
		{[]string{"ls", "--json"}, 0, `"version": "1"`},
		{[]string{"unload", "mine"}, 0, "model mine is unloaded"},
		{[]string{"ls"}, 0, "unloaded"},
		{[]string{"push", "other", path, "--load", "--version", "7", "--json"}, 0, `"version": "7"`},
		{[]string{"ls"}, 0, "other  7"},
		{[]string{"push", "other", path, "--version", "7"}, 1, "give another number"},
		{[]string{"push", "other", path, "--version", "0"}, 2, "from 1 on"},
		{[]string{"push", "other", "x.age"}, 2, "put it into the server's folder"},
		{[]string{"push", "a/b", path}, 1, "no name of a model"},
		{[]string{"load", "no"}, 1, "failed to load"},
		{[]string{"rollback", "other"}, 1, "no other version"},
	} {
		var out bytes.Buffer
		args := append(append([]string{"model"}, c.args...), "--server", at.HTTP)
		code := execute(t.Context(), args, nil, &out, &out)
		if code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("weir model %v: exit code %d, %s; want %d and %q", c.args, code, out.String(),
				c.code, c.says)
		}
	}
}

// TestUpControl: which models are loaded, and whether that can be changed, is as the flags say.
func TestUpControl(t *testing.T) {
	folder, _ := folderOf(t)
	for _, c := range []struct {
		flags []string
		load  string // of the answer to a request to load
		state string
	}{
		{[]string{"--control", "none"}, "loads no models on request", "READY"},
		{[]string{"--control", "poll"}, "loads no models on request", "READY"},
		{[]string{"--control", "explicit"}, "is loaded", ""},
		{[]string{"--control", "explicit", "--load", "mine"}, "is loaded", "READY"},
	} {
		printed, end := up(t, append([]string{"--json", "--no-cache", "--models", folder},
			c.flags...)...)
		var at struct{ HTTP string }
		if err := json.NewDecoder(printed).Decode(&at); err != nil {
			t.Fatal(err)
		}
		var list, out bytes.Buffer
		execute(t.Context(), []string{"model", "ls", "--server", at.HTTP}, nil, &list, &list)
		execute(t.Context(), []string{"model", "load", "mine", "--server", at.HTTP}, nil, &out,
			&out)
		if has := strings.Contains(list.String(), "READY"); has != (c.state == "READY") ||
			!strings.Contains(out.String(), c.load) {
			t.Errorf("%v: %s; load: %s", c.flags, list.String(), out.String())
		}
		end()
	}
	for _, c := range []struct {
		flags []string
		says  string
	}{
		{[]string{"--control", "some"}, "there are request, none, poll, explicit"},
		{[]string{"--load", "mine"}, "is for --control explicit"},
		{[]string{"--control", "explicit", "--load", "no"}, "has no such model"},
		{[]string{"--poll", "1ms"}, "10ms or more"},
	} {
		var talk bytes.Buffer
		args := append([]string{"up", "--http", "localhost:0", "--models", folder}, c.flags...)
		if code := execute(t.Context(), args, nil, io.Discard, &talk); code != 2 ||
			!strings.Contains(talk.String(), c.says) {
			t.Errorf("%v: exit code %d, %s", c.flags, code, talk.String())
		}
	}
}

// TestModelWidths: what the commands about a server's models print fits narrow lines.
func TestModelWidths(t *testing.T) {
	t.Setenv("LC_ALL", "C")
	folder, path := folderOf(t)
	printed, _ := up(t, "--json", "--no-cache", "--models", folder)
	t.Setenv(serverVariable, answering(t, printed))
	for i, width := range []string{"40", "80"} {
		t.Setenv("COLUMNS", width)
		for _, args := range [][]string{{"ls"}, {"push", "mine", path}, {"load", "mine"},
			{"rollback", "mine"}, {"unload", "mine"}, {"ls"}} {
			got := done(t, append([]string{"model"}, args...)...)
			fits(t, strings.Join(args, " "), got.out+got.talk, 40*(i+1), nil)
		}
	}
}
