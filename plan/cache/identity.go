package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/weirgpu/weir/plan"
)

// key names an entry by everything that it depends on.
type key [sha256.Size]byte

// String is the key in hexadecimal, as in file names.
func (k key) String() string { return hex.EncodeToString(k[:]) }

// keyOf hashes lines.
func keyOf(lines ...string) key {
	h := sha256.New()
	for _, l := range lines {
		fmt.Fprintf(h, "%q\n", l)
	}
	return key(h.Sum(nil))
}

// settingKey identifies everything that an entry depends on except the contents of the model's
// files; of those it includes the sizes.
func (c *Cache) settingKey(files []fileID, o plan.Options) key {
	lines := []string{"plan", fmt.Sprint(formatVersion), c.build, runtime.GOOS, runtime.GOARCH,
		o.Target.Identity(),
		fmt.Sprint(o.Passes.Precision, o.Passes.Portable),
		fmt.Sprintf("%q", slices.Sorted(slices.Values(o.Passes.Off)))}
	for _, f := range files {
		lines = append(lines, fmt.Sprint(f.Size))
	}
	for _, name := range slices.Sorted(maps.Keys(o.Shapes)) {
		lines = append(lines, fmt.Sprintf("%q %d", name, o.Shapes[name]))
	}
	if o.MostArena > 0 { // what steps need beside values, which the bound counts, goes by threads
		lines = append(lines, fmt.Sprintf("arena %d, threads %d", o.MostArena, o.Threads))
	}
	return keyOf(lines...)
}

// planFile is the name of an entry: its setting and its content.
func planFile(setting, content key) string {
	return settingPart(setting) + "-" + content.String() + planSuffix
}

// settingPart is the part of an entry's name that is known before the model is read. Half of the
// hash suffices: the entry has all of it.
func settingPart(setting key) string { return setting.String()[:len(setting)] }

// recordFile is the name of a model's record.
func (c *Cache) recordFile(path string) string {
	return keyOf("model", fmt.Sprint(formatVersion), c.build, path).String() + recordSuffix
}

// keeps reports whether plans made with these options are kept: not those for tests and dumps,
// which are more than a graph and its weights, nor those without a target, nor those with a state
// or that may take more time, as trainings do, nor those of a graph that is left for later.
func keeps(o plan.Options) bool {
	p := o.Passes
	return o.Target != nil && o.Placement == 0 && o.State == nil && o.Recompute.MostTime <= 1 &&
		p.StopAfter == 0 && p.Dump == nil && !p.Check && !p.Ahead
}

// Settled is the age that the last change of a file must have for the file's times to tell of every
// later change. It is twice the granularity of the coarsest file system in use, FAT, whose times
// count two seconds.
const Settled = 4 * time.Second

// fileID tells the content of a file from any other that its path has had.
type fileID struct {
	Name          string // "" for the model itself, else of external data, in the model's folder
	Device, Inode uint64
	Size          int64
	Modified      int64 // nanoseconds since 1970
	Changed       int64
}

// settledAt reports whether the last change was long enough before t.
func (f *fileID) settledAt(t time.Time) bool {
	return max(f.Modified, f.Changed) < t.Add(-Settled).UnixNano()
}

// identify opens a regular file and returns it with its identity. Opening makes network file
// systems look for changes.
func identify(path string) (*os.File, fileID, error) {
	// A pipe would make who opens it wait for a writer, and end a writer when it is closed again.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fileID{}, fmt.Errorf("%s is no regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fileID{}, err
	}
	id, err := identityOf(f)
	if err != nil {
		f.Close()
		return nil, fileID{}, err
	}
	return f, id, nil
}

// identityAt identifies the file at a path under a name.
func identityAt(path, name string) (fileID, error) {
	f, id, err := identify(path)
	if err != nil {
		return fileID{}, err
	}
	id.Name = name
	return id, f.Close()
}

// hashFile hashes the content of the file at a path. The file must have the identity want from
// before its first byte is read until after its last.
func hashFile(path string, want *fileID) (sum key, err error) {
	f, have, err := identify(path)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{f}, make([]byte, 1<<20))
	if err != nil {
		return sum, err
	}
	after, err := identityOf(f)
	have.Name, after.Name = want.Name, want.Name
	if err == nil && (have != *want || after != *want || n != want.Size) {
		err = fmt.Errorf("%s: %w", path, ErrChanged)
	}
	h.Sum(sum[:0])
	return sum, err
}

// thisProgram is where the running program can be read. On Linux that is the very file that runs,
// whatever has been put in its place since: a newer build may have.
func thisProgram() (string, error) {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe", nil
	}
	return os.Executable()
}

// thisBuild identifies the running program.
var thisBuild = sync.OnceValues(func() (string, error) {
	path, err := thisProgram()
	if err != nil {
		return "", err
	}
	f, id, err := identify(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	head := make([]byte, 64<<10)
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.ErrUnexpectedEOF {
		return "", err
	}
	if b := buildID(head[:n]); b != "" {
		return b, nil
	}
	return fmt.Sprintf("%+v", id), nil
})

// buildID finds the Go build ID in the beginning of an executable, "" when there is none: in the
// note of type 4 by "Go" of an ELF file (cmd/link, elf.go), elsewhere at the beginning of the text
// (cmd/link, data.go). It ends in a hash of the program's content.
func buildID(head []byte) string {
	if _, note, ok := bytes.Cut(head, []byte("\x04\x00\x00\x00Go\x00\x00")); ok &&
		bytes.HasPrefix(head, []byte("\x7fELF")) {
		at := len(head) - len(note) - len("\x04\x00\x00\x00Go\x00\x00")
		if at < 4 {
			return ""
		}
		n := int(head[at-4]) | int(head[at-3])<<8 | int(head[at-2])<<16
		if n > 0 && n <= len(note) {
			return string(note[:n])
		}
		return ""
	}
	if _, id, ok := bytes.Cut(head, []byte("\xff Go build ID: \"")); ok {
		if id, _, ok := bytes.Cut(id, []byte{'"'}); ok {
			return string(id)
		}
	}
	return ""
}
