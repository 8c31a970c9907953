package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestDeployedFile: the file that is given for a service of the system is one.
func TestDeployedFile(t *testing.T) {
	f := upFile{path: filepath.Join(root, "deploy", "systemd", "weir.yaml")}
	if err := f.set(newUp()); err != nil {
		t.Error(err)
	}
}

// archived is what an archive holds, by name.
func archived(t *testing.T, from io.Reader) map[string][]byte {
	t.Helper()
	list := map[string][]byte{}
	r := tar.NewReader(from)
	for {
		h, err := r.Next()
		if err == io.EOF {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		if list[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// TestImage: the script's image holds the binary and is what OCI's image layout says, each blob by
// its digest and size; the same binary gives the same bytes.
func TestImage(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "weir")
	write(t, binary, "a binary")
	var first []byte
	for _, name := range []string{"a.tar", "b.tar"} {
		out := filepath.Join(dir, name)
		cmd := exec.Command("sh", filepath.Join(root, "deploy", "image.sh"), out, binary)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = b
		}
		if !bytes.Equal(first, b) {
			t.Error("the same binary gives other bytes")
		}
	}
	image := archived(t, bytes.NewReader(first))
	for name, data := range image {
		if sum, ok := strings.CutPrefix(name, "blobs/sha256/"); ok && sum != "" &&
			sum != fmt.Sprintf("%x", sha256.Sum256(data)) {
			t.Errorf("%s has other bytes", name)
		}
	}
	type part struct {
		MediaType, Digest string
		Size              int
	}
	read := func(p part) []byte {
		data, ok := image["blobs/sha256/"+strings.TrimPrefix(p.Digest, "sha256:")]
		if !ok || len(data) != p.Size {
			t.Fatalf("%+v: %d bytes", p, len(data))
		}
		return data
	}
	into := func(data []byte, v any) {
		if err := json.Unmarshal(data, v); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
	}
	var index struct{ Manifests []part }
	into(image["index.json"], &index)
	var manifest struct {
		Config part
		Layers []part
	}
	into(read(index.Manifests[0]), &manifest)
	var config struct {
		Architecture, OS string
		Config           struct{ Entrypoint, Cmd []string }
		RootFS           struct {
			Type    string
			DiffIDs []string `json:"diff_ids"`
		}
	}
	into(read(manifest.Config), &config)
	z, err := gzip.NewReader(bytes.NewReader(read(manifest.Layers[0])))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("sha256:%x", sha256.Sum256(plain)); config.RootFS.DiffIDs[0] != want {
		t.Errorf("the layer is %s, and said to be %s", want, config.RootFS.DiffIDs[0])
	}
	layer := archived(t, bytes.NewReader(plain))
	if string(layer[strings.TrimPrefix(config.Config.Entrypoint[0], "/")]) != "a binary" {
		t.Errorf("the entry point is not there: %+v", config)
	}
	for _, dir := range []string{"models/", "state/"} {
		if _, ok := layer[dir]; !ok {
			t.Errorf("no %s", dir)
		}
	}
}
