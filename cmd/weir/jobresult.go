package main

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/internal/wholefile"
	"github.com/weirgpu/weir/server/jobs"
)

// npz ends the names of files of several arrays.
const npz = ".npz"

// checkOut reports where a result cannot go, before work is done for it.
func checkOut(out string) error {
	if strings.HasSuffix(out, npz) {
		return wholefile.Check(out)
	}
	if info, err := os.Stat(out); out != "" && err == nil && !info.IsDir() {
		return fmt.Errorf("--out %s: it is no folder: name one, or a file that ends in %s", out,
			npz)
	}
	return nil
}

// bring writes the result of a job to a file or folder, as a whole or not at all.
func (r *remote) bring(c *cobra.Command, j *jobs.Job, out string) error {
	if strings.HasSuffix(out, npz) {
		if err := wholefile.Write(out, func(w io.Writer) error {
			return r.download(c, j, w)
		}); err != nil {
			return err
		}
		say(c.ErrOrStderr(), "%s has the result", out)
		return nil
	}
	parent := filepath.Dir(filepath.Clean(out))
	if err := os.MkdirAll(parent, 0o777); err != nil {
		return err
	}
	aside, err := os.MkdirTemp(parent, "."+filepath.Base(out)+"-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(aside) // what is left of it after an error
	file := filepath.Join(aside, npz)
	if err := wholefile.Write(file, func(w io.Writer) error {
		return r.download(c, j, w)
	}); err != nil {
		return err
	}
	files := filepath.Join(aside, "arrays")
	names, err := unpack(c.Context(), file, files)
	if err != nil {
		return err
	}
	if err := place(files, out, names); err != nil {
		return err
	}
	say(c.ErrOrStderr(), "%s has %s", out, strings.Join(names, ", "))
	return nil
}

// download writes the result of a job, and holds that it is what the server has.
func (r *remote) download(c *cobra.Command, j *jobs.Job, w io.Writer) error {
	q, err := http.NewRequestWithContext(c.Context(), "GET", r.url+jobPath(j.ID, "/result"), nil)
	if err != nil {
		return err
	}
	answer, err := r.exchange(q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	b := newBar(c.ErrOrStderr(), "fetching", j.Bytes)
	defer b.end()
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(w, sum), b.reading(answer.Body)); err != nil {
		return fmt.Errorf("server %s: %w", r.url, err)
	}
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); got != string(j.Result) {
		return fmt.Errorf("the result of job %d came with the digest %s, and has %s: it was cut "+
			"off or changed on its way", j.ID, got, j.Result)
	}
	return nil
}

// unpack writes the arrays of a file into a folder, which it makes, and returns their files.
func unpack(ctx context.Context, file, to string) (names []string, err error) {
	z, err := zip.OpenReader(file)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	if err := os.Mkdir(to, 0o777); err != nil {
		return nil, err
	}
	for i, m := range z.File {
		name := fileName(strings.TrimSuffix(m.Name, ".npy"), i) + ".npy"
		from, err := m.Open()
		if err != nil {
			return nil, err
		}
		err = wholefile.Write(filepath.Join(to, name), func(w io.Writer) error {
			_, err := io.Copy(w, from)
			return err
		})
		if err := errors.Join(err, from.Close(), ctx.Err()); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// place moves a folder to its name or, where there is a folder of it, the files into that.
func place(from, to string, names []string) error {
	err := os.Rename(from, to)
	if err == nil || !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, name := range names {
		if err := os.Rename(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	return nil
}
