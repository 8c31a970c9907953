package onnx

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrExternalData is the kind of error about tensor contents that a model keeps in another file:
// missing, too short, or outside of the model's folder.
var ErrExternalData = errors.New("bad external data")

// externalFiles maps the files that hold the external data of one model, each once.
type externalFiles struct {
	dir    string // "" refuses all external data
	opened func(name string, f *os.File) error
	copied bool  // read in place of mapped
	fsys   fs.FS // where dir is, nil for the system's
	root   *os.Root
	data   map[string][]byte
	maps   []*mapping
}

// read returns the n bytes of a tensor, a view of the mapped file.
func (e *externalFiles) read(t *tensorMessage, n int) ([]byte, error) {
	location := t.external["location"]
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w: file %q: %s", ErrExternalData, location,
			fmt.Sprintf(format, args...))
	}
	if e == nil || e.dir == "" {
		return nil, fail("there is no model folder to look in; open the model by its path")
	}
	offset, err := extent(t.external, "offset", 0)
	if err != nil {
		return nil, fail("%v", err)
	}
	length, err := extent(t.external, "length", int64(n))
	if err != nil {
		return nil, fail("%v", err)
	}
	if length != int64(n) {
		return nil, fail("the tensor needs %d bytes, the model says %d", n, length)
	}
	data, err := e.part(location, offset, length)
	if err != nil {
		return nil, fail("%v", err)
	}
	return data, nil
}

// part returns length bytes of a file from offset on. For 0 bytes the file is not opened.
func (e *externalFiles) part(location string, offset, length int64) ([]byte, error) {
	if length == 0 {
		return []byte{}, nil
	}
	data, err := e.open(location)
	if err != nil {
		return nil, err
	}
	if offset > int64(len(data)) || length > int64(len(data))-offset {
		return nil, fmt.Errorf(
			"has %d bytes, the tensor wants %d at offset %d; is the download complete?", len(data),
			length, offset)
	}
	return data[offset : offset+length : offset+length], nil
}

func extent(external map[string]string, key string, def int64) (int64, error) {
	s, ok := external[key]
	if !ok {
		return def, nil
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v < 0 {
		return 0, fmt.Errorf("%s %q is not a size", key, s)
	}
	return v, nil
}

// open maps a file of the model's folder. os.Root keeps the path inside of it, symbolic links
// included.
func (e *externalFiles) open(location string) ([]byte, error) {
	name := filepath.Clean(filepath.FromSlash(location))
	if data, ok := e.data[name]; ok {
		return data, nil
	}
	if location == "" || !filepath.IsLocal(name) {
		return nil, errors.New("the location must be a path inside of the model's folder")
	}
	m, err := e.mapInside(name)
	if err != nil {
		return nil, err
	}
	if e.data == nil {
		e.data = map[string][]byte{}
	}
	e.data[name], e.maps = m.data, append(e.maps, m)
	return m.data, nil
}

func (e *externalFiles) mapInside(name string) (*mapping, error) {
	if e.fsys != nil {
		data, err := readInside(e.fsys, e.dir, filepath.ToSlash(name))
		return &mapping{data: data}, err
	}
	if err := e.regular(name); err != nil {
		return nil, err
	}
	f, err := e.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if e.opened != nil {
		if err := e.opened(name, f); err != nil {
			return nil, err
		}
	}
	return mapFile(f, e.copied)
}

// regular checks that there is a regular file of that name in the model's folder.
func (e *externalFiles) regular(name string) error {
	if e.root == nil {
		root, err := os.OpenRoot(e.dir)
		if err != nil {
			return err
		}
		e.root = root
	}
	info, err := e.root.Stat(name)
	if err != nil {
		return fmt.Errorf("%w; keep it next to the model", err)
	}
	if !info.Mode().IsRegular() {
		return errors.New("is not a regular file")
	}
	return nil
}

// readInside reads a file below a folder of a file system. It follows no links, which could lead
// out of the folder.
func readInside(fsys fs.FS, dir, name string) ([]byte, error) {
	at := dir
	for part := range strings.SplitSeq(name, "/") {
		at = path.Join(at, part)
		info, err := fs.Lstat(fsys, at)
		if err != nil {
			return nil, fmt.Errorf("%w; keep it next to the model", err)
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return nil, fmt.Errorf("%s is a link, which could lead out of the folder", at)
		}
	}
	return readRegular(fsys, at)
}

// readRegular reads a file, which is no pipe or device, of a file system.
func readRegular(fsys fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is not a regular file", name)
	}
	return fs.ReadFile(fsys, name)
}

// close unmaps every file.
func (e *externalFiles) close() error {
	var errs []error
	for _, m := range e.maps {
		errs = append(errs, m.close())
	}
	if e.root != nil {
		errs = append(errs, e.root.Close())
	}
	e.maps, e.data, e.root = nil, nil, nil
	return errors.Join(errs...)
}

// mapping is the content of a file: mapped, or read where it cannot be.
type mapping struct {
	data  []byte
	unmap func() error
	path  string
	file  int   // descriptor of a mapped file
	was   stamp // when it was mapped
}

// stamp tells a file that was written in place from what it was.
type stamp struct{ size, modified int64 }

// unchanged fails when the file has another size or modification time than when it was mapped. It
// does not fail when the file was replaced or removed, since the mapping then still shows the old
// content. It allocates nothing where all is well.
func (m *mapping) unchanged() error {
	if m.unmap == nil {
		return nil
	}
	if now, err := stampOf(m.file); err == nil && now == m.was {
		return nil
	}
	return fmt.Errorf("%s: %w: it was written in place: open it again; a file in use is replaced "+
		"by renaming", m.path, ErrChanged)
}

func (m *mapping) close() error {
	unmap := m.unmap
	m.data, m.unmap = nil, nil
	if unmap == nil {
		return nil
	}
	return unmap()
}

// mapFile maps a regular file, unless a copy is wanted. It reads the whole content of any other
// file, such as a pipe, and of a file that cannot be mapped.
func mapFile(f *os.File, copied bool) (*mapping, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().IsRegular() && !copied {
		if m, err := mapRegular(f, info.Size()); err == nil {
			return m, nil
		}
	}
	if !info.Mode().IsRegular() {
		data, err := ReadAll(f)
		return &mapping{data: data}, err
	}
	return copyFile(f, info)
}

// copyFile reads a regular file, which must stay as info says it was.
func copyFile(f *os.File, info os.FileInfo) (*mapping, error) {
	var all bytes.Buffer
	if info.Size() < math.MaxInt-bytes.MinRead {
		all.Grow(int(info.Size()) + bytes.MinRead)
	}
	if _, err := all.ReadFrom(f); err != nil {
		return nil, err
	}
	after, err := f.Stat()
	if err == nil && (after.Size() != info.Size() || !after.ModTime().Equal(info.ModTime())) {
		err = fmt.Errorf("%w: open it again", ErrChanged)
	}
	return &mapping{data: all.Bytes()}, err
}

// ReadAll reads a model from a pipe or another stream, for [Decode]. It reads no more than a
// protobuf message may have, and fails with [ErrFormat] where there is more.
func ReadAll(r io.Reader) ([]byte, error) { return readAtMost(r, maxMessage) }

func readAtMost(r io.Reader, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(data)) > most {
		err = formatErr("more than %d bytes, the most that a protobuf message may have", most)
	}
	return data, err
}
