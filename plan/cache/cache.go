package cache

import (
	"cmp"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// Options say where a cache is and how large it gets. The zero Options suit most.
type Options struct {
	// Dir is the folder, "" for the user's: weir/plans in os.UserCacheDir, which honours
	// XDG_CACHE_HOME.
	Dir string
	// MaxBytes bounds the size of all entries together; 0 stands for [DefaultMaxBytes].
	MaxBytes int64
	// Log receives a record at level debug for each entry that is found, missed, refused or
	// written; nil is silent.
	Log *slog.Logger
}

// DefaultMaxBytes bounds a cache whose size nobody has set.
const DefaultMaxBytes = 4 << 30

// EnvDir is the environment variable that names the folder for commands, or says "off".
const EnvDir = "WEIR_CACHE"

// Cache is a folder of compiled plans. The nil Cache is always empty.
type Cache struct {
	dir       string
	max       int64
	build     string
	release   string // of the kernels
	processor func() string
	log       *slog.Logger
	now       func() time.Time
}

// Open returns the cache in a folder, which is made when the first entry is written. It fails when
// there is no folder for the user's caches, or when the program cannot tell which build it is; both
// leave nothing to do but run without.
func Open(o Options) (*Cache, error) {
	c := &Cache{dir: o.Dir, max: o.MaxBytes, log: o.Log, now: time.Now,
		processor: cpuinfo.ModelName}
	if c.max == 0 {
		c.max = DefaultMaxBytes
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return nil, err
		}
		c.dir = filepath.Join(base, "weir", "plans")
	}
	var err error
	if c.build, err = thisBuild(); err == nil {
		info, _ := debug.ReadBuildInfo()
		c.release = release(info, c.build)
	}
	return c, err
}

// FromEnv is the cache of commands: the folder that the environment variable [EnvDir] names, else
// the user's. It is nil when the variable says "off" and when [Open] fails.
func FromEnv(log *slog.Logger) *Cache {
	dir := os.Getenv(EnvDir)
	if dir == "off" {
		return nil
	}
	c, err := Open(Options{Dir: dir, Log: log})
	if err != nil {
		return nil
	}
	return c
}

// Kinds of files, by the end of their names.
const (
	planSuffix   = ".plan"
	recordSuffix = ".model"
	tempSuffix   = ".tmp"
)

// hasSetting reports whether there is any entry of a setting.
func (c *Cache) hasSetting(setting key) bool {
	list, _ := os.ReadDir(c.dir)
	return slices.ContainsFunc(list, func(d fs.DirEntry) bool {
		return strings.HasPrefix(d.Name(), settingPart(setting)+"-")
	})
}

// write makes a file of the cache as a whole or not at all.
func (c *Cache) write(name string, size int64, content func(f *os.File) error) error {
	return c.writeNamed(size, func(f *os.File) (string, error) { return name, content(f) })
}

// writeNamed is write for a file whose name is known once its content is written.
func (c *Cache) writeNamed(size int64,
	content func(f *os.File) (name string, err error)) (err error) {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	if err := roomFor(c.dir, size); err != nil {
		return err
	}
	f, err := os.CreateTemp(c.dir, "*"+tempSuffix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	// Without a flush to the disk: what a loss of power leaves half written fails its checksum.
	name, err := content(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// drop removes a file that is of no use.
func (c *Cache) drop(name string, why error) {
	c.log.Debug("plan cache: entry refused", "file", name, "error", why)
	_ = os.Remove(name)
}

// touch notes that a file was used, about once an hour.
func (c *Cache) touch(name string) {
	now := c.now()
	if info, err := os.Stat(name); err == nil && now.Sub(info.ModTime()) > time.Hour {
		_ = os.Chtimes(name, now, now)
	}
}

// abandoned is the age from which a temporary file belongs to a process that died.
const abandoned = time.Hour

// trim removes the entries unused for longest until the rest fits, and what dead processes left.
func (c *Cache) trim() {
	type file struct {
		name string
		size int64
		used time.Time
	}
	var files []file
	var total int64
	list, _ := os.ReadDir(c.dir)
	for _, d := range list {
		info, err := d.Info()
		if err != nil || !info.Mode().IsRegular() || !own(d) {
			continue
		}
		name := filepath.Join(c.dir, d.Name())
		if strings.HasSuffix(name, tempSuffix) {
			if c.now().Sub(info.ModTime()) > abandoned {
				_ = os.Remove(name)
			}
			continue
		}
		files = append(files, file{name, info.Size(), info.ModTime()})
		total += info.Size()
	}
	slices.SortFunc(files, func(a, b file) int {
		return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.name, b.name))
	})
	for _, f := range files {
		if total <= c.max {
			return
		}
		if os.Remove(f.name) == nil {
			c.log.Debug("plan cache: entry made room", "file", f.name)
		}
		total -= f.size
	}
}

// own reports whether a file's name is one that this package gives: the folder may hold others.
func own(d fs.DirEntry) bool {
	name := d.Name()
	if strings.HasSuffix(name, tempSuffix) {
		return strings.Trim(strings.TrimSuffix(name, tempSuffix), "0123456789") == ""
	}
	for _, suffix := range []string{planSuffix, recordSuffix, choicesSuffix} {
		// hashes, of this version's number and lengths or another's
		if stem, ok := strings.CutSuffix(name, suffix); ok {
			return len(stem) >= 2*len(key{}) && strings.Trim(stem, "0123456789abcdef-") == ""
		}
	}
	return false
}
