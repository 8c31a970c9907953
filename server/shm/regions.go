package shm

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sort"
	"strings"
	"sync"
)

// The kinds of errors.
var (
	ErrUnknown     = errors.New("unknown region")
	ErrExists      = errors.New("region exists")
	ErrInvalid     = errors.New("invalid region")
	ErrUnsupported = errors.New("no shared memory")
)

// Max is how many regions an account may have. All accounts together may have as many as a fourth
// of the files that the process may open, since each is one, and connections are too.
const Max = 1024

// maxName is the longest name: NAME_MAX of Linux.
const maxName = 255

// Info describes a region.
type Info struct {
	Name   string // under which it was registered
	Key    string // of shm_open(3)
	Offset int64  // in bytes, where the region begins in that memory
	Size   int64  // in bytes
	// Foreign is set where another user of the machine than the server's asks for it: that takes
	// memory which all users may read and write.
	Foreign bool
}

// Regions are those that clients have registered.
type Regions struct {
	prefix string
	most   int // of all accounts

	mu  sync.Mutex
	all map[id]*Region
}

// id names a region.
type id struct{ account, name string }

// Region is a part of shared memory. It needs [Region.Close].
type Region struct {
	Info
	file  *os.File
	inner fileID

	of   *Regions
	uses int // under of.mu; with 0 the file is closed
}

// fileID tells files apart.
type fileID struct{ device, inode uint64 }

// New returns no regions. Keys must begin with the prefix, which begins with a slash: "/" is that
// of all.
func New(prefix string) (*Regions, error) {
	if !strings.HasPrefix(prefix, "/") || strings.Count(prefix, "/") > 1 {
		return nil, fmt.Errorf("%w: prefix %.40q: give one that begins with a slash and has no "+
			"other, as names of shared memory do", ErrInvalid, prefix)
	}
	return &Regions{prefix: prefix, most: files() / 4, all: map[id]*Region{}}, nil
}

// Register makes size bytes of the shared memory of a key, from offset on, known to an account's
// requests under a name. The error is of kind [ErrExists] where the account has one of that name,
// or another account the same memory; of kind [ErrInvalid] where the key or the part will not do;
// and of kind [ErrUnsupported] on other systems than Linux.
func (r *Regions) Register(account string, in Info) error {
	if err := r.check(in); err != nil {
		return err
	}
	f, inner, err := open(in.Key[1:], in)
	if err != nil {
		return fmt.Errorf("region %.40q: %w", in.Name, err)
	}
	region := &Region{Info: in, file: f, inner: inner, of: r, uses: 1}
	if err := r.add(account, region); err != nil {
		return errors.Join(err, f.Close())
	}
	return nil
}

// check holds what is said of a region against what may be.
func (r *Regions) check(in Info) error {
	key, slash := strings.CutPrefix(in.Key, "/")
	switch {
	case in.Name == "" || len(in.Name) > maxName:
		return fmt.Errorf("%w: a name of %d bytes: give 1 to %d", ErrInvalid, len(in.Name), maxName)
	case !slash || key == "" || len(key) > maxName || key == "." || key == ".." ||
		strings.ContainsAny(key, "/\x00"):
		return fmt.Errorf("%w: key %.40q: give a slash and a name without slashes", ErrInvalid,
			in.Key)
	case !strings.HasPrefix(in.Key, r.prefix):
		return fmt.Errorf("%w: key %.40q: this server takes those that begin with %s", ErrInvalid,
			in.Key, r.prefix)
	case in.Offset < 0 || in.Size <= 0 || in.Offset > math.MaxInt64-in.Size:
		return fmt.Errorf("%w: %d bytes from %d on: give an offset that is not negative and at "+
			"least one byte", ErrInvalid, in.Size, in.Offset)
	}
	return nil
}

// add makes a region known.
func (r *Regions) add(account string, region *Region) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := id{account, region.Name}
	if r.all[at] != nil {
		return fmt.Errorf("%w: shared memory region %.40q already in manager: unregister it first",
			ErrExists, region.Name)
	}
	count := 0
	for other, has := range r.all {
		switch {
		case other.account == account:
			count++
		case has.inner == region.inner:
			return fmt.Errorf("%w: key %.40q is registered by another account", ErrExists,
				region.Key)
		}
	}
	if len(r.all) >= r.most {
		return fmt.Errorf("%w: all accounts together have %d regions, which is as many as there "+
			"may be: unregister some", ErrInvalid, len(r.all))
	}
	if count >= Max {
		return fmt.Errorf("%w: %d regions are registered, which is as many as there may be",
			ErrInvalid, count)
	}
	r.all[at] = region
	return nil
}

// List describes an account's regions, by name.
func (r *Regions) List(account string) []Info {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := []Info{}
	for at, region := range r.all {
		if at.account == account {
			list = append(list, region.Info)
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list
}

// Unregister forgets a region of an account; one that is not there is no error.
func (r *Regions) Unregister(account, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(id{account, name})
}

// UnregisterAll forgets all regions of an account.
func (r *Regions) UnregisterAll(account string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at := range r.all {
		if at.account == account {
			r.drop(at)
		}
	}
}

// Close forgets all regions.
func (r *Regions) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at := range r.all {
		r.drop(at)
	}
}

// drop forgets a region; r.mu is held.
func (r *Regions) drop(at id) {
	if region := r.all[at]; region != nil {
		delete(r.all, at)
		region.done()
	}
}

// Get returns a region of an account, which stays until it is closed. The error is of kind
// [ErrUnknown].
func (r *Regions) Get(account, name string) (*Region, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	region := r.all[id{account, name}]
	if region == nil {
		return nil, fmt.Errorf("%w: Unable to find shared memory region: %.40q", ErrUnknown, name)
	}
	region.uses++
	return region, nil
}

// Close gives the region back to whom it was got from.
func (g *Region) Close() {
	g.of.mu.Lock()
	defer g.of.mu.Unlock()
	g.done()
}

// done ends a use of the region; of.mu is held.
func (g *Region) done() {
	if g.uses--; g.uses == 0 {
		_ = g.file.Close() // of a file that nothing was kept back of
	}
}

// Holds reports whether size bytes from an offset of the region on are part of it, as an error of
// kind [ErrInvalid] if not.
func (g *Region) Holds(offset, size int64) error {
	if offset < 0 || size < 0 || offset > g.Size || size > g.Size-offset {
		return fmt.Errorf("%w: Invalid offset + byte size for shared memory region: %.40q: %d "+
			"bytes from %d on, of %d", ErrInvalid, g.Name, size, offset, g.Size)
	}
	return nil
}

// Read reads all of p from an offset of the region on. The error is of kind [ErrInvalid] where that
// is not part of the region, or the memory has become shorter.
func (g *Region) Read(p []byte, offset int64) error {
	if err := g.Holds(offset, int64(len(p))); err != nil {
		return err
	}
	if _, err := g.file.ReadAt(p, g.Offset+offset); err != nil {
		return fmt.Errorf("%w: %.40q: its memory cannot be read any more: %w", ErrInvalid, g.Name,
			err)
	}
	return nil
}

// Write writes p at an offset of the region. The error is that of Read.
func (g *Region) Write(p []byte, offset int64) error {
	if err := g.Holds(offset, int64(len(p))); err != nil {
		return err
	}
	// what is written behind the end would make the memory longer
	s, err := g.file.Stat()
	if err == nil && s.Size() < g.Offset+offset+int64(len(p)) {
		err = errors.New("it has become shorter")
	}
	if err == nil {
		_, err = g.file.WriteAt(p, g.Offset+offset)
	}
	if err != nil {
		return fmt.Errorf("%w: %.40q: its memory cannot be written any more: %w", ErrInvalid,
			g.Name, err)
	}
	return nil
}
