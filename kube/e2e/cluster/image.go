package cluster

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
)

// Image is a container image of one layer, made of files of this machine: no registry is needed.
type Image struct {
	Name       string            // "weir-node:0.1.0"
	Files      map[string]string // paths in the image, each with that of the file here
	Entrypoint []string
}

// write writes the image as docker save does: a configuration, one layer and a list of both.
func (i *Image) write(to string) (err error) {
	layer, err := i.layer()
	if err != nil {
		return err
	}
	sum := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": i.Entrypoint, "Env": []string{
			"PATH=/usr/bin:/bin"}},
		"rootfs": map[string]any{"type": "layers",
			"diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}}})
	if err != nil {
		return err
	}
	list, err := json.Marshal([]map[string]any{{"Config": "config.json",
		"RepoTags": []string{i.Name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	w := tar.NewWriter(out)
	for _, f := range []struct {
		name string
		text []byte
	}{{"config.json", config}, {"layer.tar", layer}, {"manifest.json", list}} {
		err = errors.Join(err, entry(w, f.name, 0o644, f.text))
	}
	return errors.Join(err, w.Close(), out.Close())
}

// layer is the files, with the folders that they lie in, in the order of their paths.
func (i *Image) layer() ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	made := map[string]bool{"/": true}
	for _, name := range slices.Sorted(maps.Keys(i.Files)) {
		if err := folders(w, path.Dir(name), made); err != nil {
			return nil, err
		}
		f, err := os.Open(i.Files[name])
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		if err := entry(w, strings.TrimPrefix(name, "/"), 0o755, text); err != nil {
			return nil, err
		}
	}
	// What every container is given a file or a file system of needs a place for it.
	for _, d := range []string{"/dev", "/etc", "/proc", "/run", "/sys", "/tmp", "/var/run"} {
		if err := folders(w, d, made); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), w.Close()
}

func folders(w *tar.Writer, dir string, made map[string]bool) error {
	if made[dir] {
		return nil
	}
	made[dir] = true
	if err := folders(w, path.Dir(dir), made); err != nil {
		return err
	}
	return w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(dir, "/") + "/", Mode: 0o755,
		Typeflag: tar.TypeDir})
}

func entry(w *tar.Writer, name string, mode int64, text []byte) error {
	err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(text)),
		Typeflag: tar.TypeReg})
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}
