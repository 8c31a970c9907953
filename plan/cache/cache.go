package cache

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/fault"
	"github.com/weirgpu/weir/internal/sorting"
)

// Options say where a cache is and how large it gets. The zero Options suit most.
type Options struct {
	// Dir is the folder, "" for the user's: weir/plans in os.UserCacheDir, which honours
	// XDG_CACHE_HOME.
	Dir string
	// MaxBytes bounds the size of all entries together; 0 stands for [DefaultMaxBytes].
	MaxBytes int64
	// Log receives a warning for each file that is damaged or that another user could have written,
	// and a record at level debug for each entry that is found or missed; nil is silent.
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
	seen      *seen

	user  int // who runs the program, and who owns a file
	owner func(fs.FileInfo) (int, error)
	lease func(*os.File) error // keeps writers out of a file
}

// seen is what a cache has found out about its folder.
type seen struct {
	told sync.Once                   // that it is refused
	full sync.Once                   // that it cannot be written
	safe atomic.Pointer[fs.FileInfo] // of the folder to which nobody else can change the way
}

// Open returns the cache in a folder, which is made when the first entry is written. It fails when
// the user has no folder for caches, or when the program cannot tell which build it is; a program
// can then only run without a cache.
func Open(o Options) (*Cache, error) {
	c := &Cache{dir: o.Dir, max: o.MaxBytes, log: o.Log, now: time.Now,
		processor: cpuinfo.ModelName, seen: &seen{}, user: os.Geteuid(), owner: ownerOf,
		lease: takeLease}
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
	root, err := c.folder()
	if err != nil {
		return false
	}
	defer root.Close()
	list, _ := fs.ReadDir(root.FS(), ".")
	return slices.ContainsFunc(list, func(d fs.DirEntry) bool {
		return strings.HasPrefix(d.Name(), settingPart(setting)+"-")
	})
}

// write makes a file of the cache as a whole or not at all.
func (c *Cache) write(name string, size int64, content func(f *os.File) error) error {
	_, err := c.writeNamed(size, func(f *os.File) (string, error) { return name, content(f) })
	return err
}

// writeNamed is write for a file whose name is known once its content is written. It returns the
// identity of the file under that name.
func (c *Cache) writeNamed(size int64,
	content func(f *os.File) (name string, err error)) (id fileID, err error) {
	root, err := c.makeFolder()
	if err != nil {
		return id, err
	}
	defer root.Close()
	if err := roomFor(c.dir, size); err != nil {
		return id, unwritable(err)
	}
	temp := fmt.Sprint(rand.Uint64(), tempSuffix)
	f, err := root.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return id, unwritable(err)
	}
	// Without a flush to the disk: what a loss of power leaves half written fails its checksum.
	name, err := fault.Value(func() (string, error) { return content(f) })
	if err == nil {
		err = unwritable(root.Rename(temp, name))
	}
	if err != nil {
		_ = root.Remove(temp)
		return id, errors.Join(err, f.Close())
	}
	id, err = identityOf(f)
	if err = errors.Join(err, unwritable(f.Close())); err != nil {
		_ = root.Remove(name)
	}
	return id, err
}

// errUnwritable is the kind of error about a folder that takes no more files: one that may not be
// written, and a disk that is full.
var errUnwritable = errors.New("the folder of plans cannot be written")

// unwritable makes an error of kind errUnwritable of one that writing met, and nil of nil.
func unwritable(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errUnwritable, err)
}

// logUnsaved logs why a plan was not kept. A folder that cannot be written concerns every model,
// and is logged only once.
func (c *Cache) logUnsaved(model string, why error) {
	if errors.Is(why, errUnwritable) && !errors.Is(why, fault.ErrFile) {
		c.seen.full.Do(func() {
			c.log.Warn("plan cache: plans are not kept, models start without them", "folder", c.dir,
				"error", strings.ReplaceAll(why.Error(), "\n", "; "))
		})
		return
	}
	c.log.Debug("plan cache: not kept", "model", model, "error", why)
}

// touch notes that a file was used, about once an hour.
func (c *Cache) touch(name string) {
	root, err := c.folder()
	if err != nil {
		return
	}
	defer root.Close()
	now := c.now()
	if info, err := root.Stat(name); err == nil && now.Sub(info.ModTime()) > time.Hour {
		_ = root.Chtimes(name, now, now)
	}
}

// abandoned is the age from which a temporary file belongs to a process that died.
const abandoned = time.Hour

// stored is a file of the cache, with its receipt.
type stored struct {
	name string
	size int64
	used time.Time
}

// trim removes the entries unused for longest until the rest fits, and what dead processes left.
func (c *Cache) trim() {
	root, err := c.folder()
	if err != nil {
		return
	}
	defer root.Close()
	var total int64
	files := c.stored(root)
	for _, f := range files {
		total += f.size
	}
	sorting.By(files, func(a, b stored) int {
		return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.name, b.name))
	})
	for _, f := range files {
		if total <= c.max {
			return
		}
		if root.Remove(f.name) == nil {
			c.log.Debug("plan cache: entry made room", "file", f.name)
		}
		_ = root.Remove(receiptOf(f.name))
		total -= f.size
	}
}

// stored lists the files, an entry and its receipt as one, and removes temporary ones that are
// abandoned.
func (c *Cache) stored(root *os.Root) (files []stored) {
	list, _ := fs.ReadDir(root.FS(), ".") // by name, which puts an entry before its receipt
	for _, d := range list {
		info, err := d.Info()
		if err != nil || !info.Mode().IsRegular() || !own(d) {
			continue
		}
		name, n := d.Name(), len(files)
		switch {
		case strings.HasSuffix(name, tempSuffix):
			if c.now().Sub(info.ModTime()) > abandoned {
				_ = root.Remove(name)
			}
		case n > 0 && strings.HasSuffix(name, receiptSuffix) && receiptOf(files[n-1].name) == name:
			files[n-1].size += info.Size()
			if t := info.ModTime(); t.After(files[n-1].used) {
				files[n-1].used = t
			}
		default:
			files = append(files, stored{name, info.Size(), info.ModTime()})
		}
	}
	return files
}

// own reports whether a file's name is one that this package gives: the folder may hold others.
func own(d fs.DirEntry) bool {
	name := d.Name()
	if strings.HasSuffix(name, tempSuffix) {
		return strings.Trim(strings.TrimSuffix(name, tempSuffix), "0123456789") == ""
	}
	for _, suffix := range []string{planSuffix, receiptSuffix, recordSuffix, choicesSuffix} {
		// hashes, of this version's number and lengths or another's
		if stem, ok := strings.CutSuffix(name, suffix); ok {
			return len(stem) >= 2*len(key{}) && strings.Trim(stem, "0123456789abcdef-") == ""
		}
	}
	return false
}
