package cluster

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestImageIsWhatRuntimesTake reads an image back: its layer is the one that its configuration
// names, and has all folders before what is in them.
func TestImageIsWhatRuntimesTake(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "x")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	i := Image{Name: "a:1", Files: map[string]string{"/lib/deep/x": file, "/y": file},
		Entrypoint: []string{"/y", "arg"}}
	path := filepath.Join(dir, "image.tar")
	if err := i.write(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	parts, _ := untar(t, text)
	var list []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(parts["manifest.json"], &list); err != nil || len(list) != 1 ||
		list[0].RepoTags[0] != "a:1" {
		t.Fatalf("%v, %+v", err, list)
	}
	layer := parts[list[0].Layers[0]]
	sum := sha256.Sum256(layer)
	if c := string(parts[list[0].Config]); !strings.Contains(c, hex.EncodeToString(sum[:])) ||
		!strings.Contains(c, `"Entrypoint":["/y","arg"]`) {
		t.Errorf("configuration %s", c)
	}
	files, order := untar(t, layer)
	if string(files["lib/deep/x"]) != "text" || string(files["y"]) != "text" {
		t.Errorf("has %v", order)
	}
	names := " " + strings.Join(order, " ") + " "
	if !strings.Contains(names, " lib/ lib/deep/ lib/deep/x ") ||
		!strings.Contains(names, " proc/ ") || strings.Count(names, " lib/ ") != 1 {
		t.Errorf("in the order%s", names)
	}
}

// untar is what an archive has, and its names in their order.
func untar(t *testing.T, text []byte) (map[string][]byte, []string) {
	t.Helper()
	all := map[string][]byte{}
	var order []string
	for r := tar.NewReader(bytes.NewReader(text)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, order
		}
		if err != nil {
			t.Fatal(err)
		}
		order = append(order, h.Name)
		if all[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// TestProfileIsTakenOut holds that of a bundle's configuration nothing but the profile of system
// calls is left out.
func TestProfileIsTakenOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, []byte(`{"ociVersion":"1.2.1","process":{"n":12345678901234567},`+
		`"linux":{"seccomp":{"defaultAction":"x"},"cgroupsPath":"/a"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := withoutProfile(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	const want = `{"linux":{"cgroupsPath":"/a"},"ociVersion":"1.2.1",` +
		`"process":{"n":12345678901234567}}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
	if err := AsRunc(nil); err == nil {
		t.Error("without the path of runc")
	}
}

// TestNothingStartsWithoutBinaries names the first that is missing, and what to do.
func TestNothingStartsWithoutBinaries(t *testing.T) {
	_, err := Start(t.Context(), Options{Bin: t.TempDir(), Dir: "/tmp", Loopback: true})
	if !errors.Is(err, ErrNotBuilt) || !strings.Contains(err.Error(), "etcd") ||
		!strings.Contains(err.Error(), "kube/e2e/build") {
		t.Error(err)
	}
	if _, err := Start(t.Context(), Options{Dir: "/" + strings.Repeat("x", 40)}); err == nil ||
		!strings.Contains(err.Error(), "sockets") {
		t.Error(err)
	}
}
