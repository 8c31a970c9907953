package source

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// shelves answers what OCI Distribution 1.1 has for reading, for faults that a real one does not
// have on demand. That real ones are understood, TestStores shows.
type shelves struct {
	tags  map[string][]byte // manifests
	blobs map[string]string
	reads int  // of manifests
	asked int  // about manifests, reads included
	mute  bool // it does not say their digests
}

func digestOf(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }

// push puts an artifact there, of files by their titles.
func (g *shelves) push(tag string, files map[string]string, annotate map[string]string) {
	type layer struct {
		MediaType   string            `json:"mediaType"`
		Digest      string            `json:"digest"`
		Size        int               `json:"size"`
		Annotations map[string]string `json:"annotations"`
	}
	var layers []layer
	for path, text := range files {
		l := layer{"application/octet-stream", digestOf(text), len(text),
			map[string]string{"org.opencontainers.image.title": path}}
		for k, v := range annotate {
			l.Annotations[k] = v
		}
		layers = append(layers, l)
		g.blobs[l.Digest] = text
	}
	text, err := json.Marshal(map[string]any{"schemaVersion": 2, "layers": layers,
		"mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": layer{MediaType: "application/vnd.oci.empty.v1+json", Digest: digestOf("{}"),
			Size: 2}})
	if err != nil {
		panic(err)
	}
	g.tags[tag] = text
	g.tags[digestOf(string(text))] = text
}

func (g *shelves) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := strings.TrimPrefix(r.URL.Path, "/v2/team/net")
	kind, name, _ := strings.Cut(strings.TrimPrefix(at, "/"), "/")
	switch {
	case kind == "tags":
		var list []string
		for tag := range g.tags {
			if !strings.Contains(tag, ":") {
				list = append(list, tag)
			}
		}
		slices.Sort(list)
		_ = json.NewEncoder(w).Encode(map[string]any{"name": "team/net", "tags": list})
	case kind == "manifests" && g.tags[name] != nil:
		g.asked++
		if r.Method == http.MethodGet {
			g.reads++
		}
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		if !g.mute {
			w.Header().Set("Docker-Content-Digest", digestOf(string(g.tags[name])))
		}
		_, _ = w.Write(g.tags[name])
	case kind == "blobs" && g.blobs[name] != "":
		_, _ = io.WriteString(w, g.blobs[name])
	default:
		http.Error(w, `{"errors":[{"code":"MANIFEST_UNKNOWN"}]}`, http.StatusNotFound)
	}
}

// board serves a registry, and returns how a reference in it is asked.
func board(t *testing.T, g *shelves, ref string) Remote {
	t.Helper()
	s := httptest.NewServer(g)
	t.Cleanup(s.Close)
	r, err := Parse("oci://"+strings.TrimPrefix(s.URL, "http://")+"/team/net"+ref, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newShelves() *shelves {
	return &shelves{tags: map[string][]byte{}, blobs: map[string]string{}}
}

// TestArtifacts: the files of an artifact are those of a model, by tag, by digest, and of all tags
// that are versions.
func TestArtifacts(t *testing.T) {
	g := newShelves()
	g.push("1", map[string]string{"model.onnx": "one", "labels.txt": "old"}, nil)
	g.push("12", map[string]string{"model.onnx": "twelve", "config.pbtxt": "c",
		"labels.txt": "new"}, nil)
	g.push("beta", map[string]string{"3/model.onnx": "three", "config.pbtxt": "d"}, nil)
	byDigest := "@" + digestOf(string(g.tags["1"]))
	for ref, want := range map[string]map[string]string{
		"": {"1/model.onnx": "one", "12/model.onnx": "twelve", "config.pbtxt": "c",
			"labels.txt": "new"},
		":beta":  {"3/model.onnx": "three", "config.pbtxt": "d"},
		":12":    {"12/model.onnx": "twelve", "config.pbtxt": "c", "labels.txt": "new"},
		byDigest: {"1/model.onnx": "one", "labels.txt": "old"},
	} {
		r := board(t, g, ref)
		if names, err := r.Names(t.Context()); err != nil || !slices.Equal(names, []string{"net"}) {
			t.Errorf("%s: %q, %v", ref, names, err)
		}
		list, err := r.Files(t.Context(), "net")
		if err != nil || len(list) != len(want) {
			t.Errorf("%s: %v, %v", ref, list, err)
		}
		for _, f := range list {
			if text, err := read(t.Context(), r, &f); err != nil || text != want[f.Path] {
				t.Errorf("%s, %s: %q, %v", ref, f.Path, text, err)
			}
		}
	}
	if _, err := board(t, g, ":none").Files(t.Context(), "net"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := board(t, g, "").Files(t.Context(), "other"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	delete(g.tags, "1")
	delete(g.tags, "12")
	if _, err := board(t, g, "").Names(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestManifestsAreReadOnce: a registry that is looked at again is asked what its tags are, and for
// manifests only that are new; of a digest it is asked nothing. One that does not say digests is
// read.
func TestManifestsAreReadOnce(t *testing.T) {
	g := newShelves()
	g.push("1", map[string]string{"model.onnx": "one"}, nil)
	g.push("2", map[string]string{"model.onnx": "two"}, nil)
	all := board(t, g, "")
	fixed := board(t, g, "@"+digestOf(string(g.tags["1"])))
	look := func(what string, r Remote, files, asked, reads int) {
		t.Helper()
		g.asked, g.reads = 0, 0
		list, err := r.Files(t.Context(), "net")
		if err != nil || len(list) != files || g.asked != asked || g.reads != reads {
			t.Errorf("%s: %v, %v; asked %d times, read %d; want %d files, %d, %d", what, list, err,
				g.asked, g.reads, files, asked, reads)
		}
	}
	look("first", all, 2, 4, 2)
	look("again", all, 2, 2, 0)
	g.push("2", map[string]string{"model.onnx": "another", "config.pbtxt": "c"}, nil)
	look("one is another", all, 3, 3, 1)
	look("and stays", all, 3, 2, 0)
	delete(g.tags, "1")
	look("one is gone", all, 2, 1, 0)
	look("by digest", fixed, 1, 1, 1)
	look("by digest again", fixed, 1, 0, 0)
	g.mute = true
	look("without digests", all, 2, 2, 1)
}

// TestBadArtifacts: what is no model, or not what its digest says, is refused.
func TestBadArtifacts(t *testing.T) {
	g := newShelves()
	g.push("outside", map[string]string{"../model.onnx": "x"}, nil)
	g.push("hidden", map[string]string{"1/.ssh": "x"}, nil)
	g.push("packed", map[string]string{"1": "x"}, map[string]string{unpackOfOras: "true"})
	g.push("untitled", map[string]string{"": "x"}, nil)
	g.push("empty", nil, nil)
	g.tags["text"], g.tags[digestOf("no JSON")] = []byte("no JSON"), []byte("no JSON")
	for _, tag := range []string{"outside", "hidden", "packed", "untitled", "empty", "text"} {
		if _, err := board(t, g, ":"+tag).Files(t.Context(), "net"); !errors.Is(err, ErrLayout) {
			t.Errorf("%s: %v", tag, err)
		}
	}
	g.push("1", map[string]string{"model.onnx": "one"}, nil)
	r := board(t, g, ":1")
	list, err := r.Files(t.Context(), "net")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"two", "on", "ones"} {
		g.blobs[digestOf("one")] = text
		if _, err := read(t.Context(), r, &list[0]); err == nil {
			t.Errorf("%q was taken for another content", text)
		}
	}
	digest := digestOf(string(g.tags["1"]))
	g.tags[digest] = g.tags["empty"]
	if _, err := board(t, g, "@"+digest).Files(t.Context(), "net"); err == nil {
		t.Error("another manifest was taken for that of a digest")
	}
}
