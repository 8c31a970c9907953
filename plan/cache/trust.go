package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirgpu/weir/internal/fault"
)

// errUntrusted is the kind of error about a folder or file that another user could have written.
var errUntrusted = errors.New("another user could have written it")

const (
	writableByOthers = 0o022
	enteredByOthers  = 0o011
)

// folder opens the cache's folder, after it has checked that only this user and root can change
// what is in it or put another folder in its place. Whatever is done through the root that it
// returns is done in that very folder, even if its path is changed meanwhile. The first refusal is
// logged.
func (c *Cache) folder() (*os.Root, error) {
	// The system takes what ends so for a folder or for nothing. Opening a pipe, which anybody may
	// make in a folder such as /tmp, would wait for a writer.
	root, err := os.OpenRoot(c.dir + "/.")
	if err != nil {
		return nil, err
	}
	if err := c.trustFolder(root); err != nil {
		c.refuseFolder(err)
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

// refuseFolder logs why the folder is not used, once.
func (c *Cache) refuseFolder(why error) {
	c.seen.told.Do(func() {
		c.log.Warn("plan cache: folder refused, models start without it", "folder", c.dir, "error",
			why)
	})
}

// makeFolder is folder that makes it where there is none, which fails with errUnwritable. It makes
// nothing where the folder would be refused, such as in the home of another user, who could not
// write what root makes there.
func (c *Cache) makeFolder() (*os.Root, error) {
	if _, err := os.Lstat(c.dir); errors.Is(err, fs.ErrNotExist) {
		if err := c.trustPlace(); err != nil {
			c.refuseFolder(err)
			return nil, err
		}
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, unwritable(err)
	}
	return c.folder()
}

// trustPlace checks the folders that there are on the way to one that is still to be made.
func (c *Cache) trustPlace() error {
	at, err := filepath.Abs(c.dir)
	for err == nil {
		at = filepath.Dir(at)
		path, missing := filepath.EvalSymlinks(at)
		if missing == nil {
			return c.trustFolders(path)
		}
		if !errors.Is(missing, fs.ErrNotExist) {
			return nil // making the folder fails, and says why
		}
	}
	return err
}

// trustFolder checks the open folder, and then those on the way to it, where symbolic links lead:
// whoever can write one of them can put another folder in the place of this one.
func (c *Cache) trustFolder(root *os.Root) error {
	opened, err := root.Stat(".")
	if err != nil {
		return err
	}
	if err := c.trust(c.dir, opened); err != nil {
		return err
	}
	if safe := c.seen.safe.Load(); safe != nil && os.SameFile(*safe, opened) {
		return nil
	}
	path, err := filepath.Abs(c.dir)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return err
	}
	if err := c.trustFolders(filepath.Dir(path)); err != nil {
		return err
	}
	now, err := os.Lstat(path)
	if err == nil && !os.SameFile(opened, now) {
		err = fmt.Errorf("%w: it was replaced just now", errUntrusted)
	}
	if err == nil {
		c.seen.safe.Store(&opened)
	}
	return err
}

// trustFolders checks a folder and all folders above it, from the top. It allows others to write a
// folder in which they cannot remove what is not theirs (a sticky one, such as /tmp), and one below
// a folder that does not let them in.
func (c *Cache) trustFolders(path string) error {
	shut := false
	for i := range len(path) + 1 {
		if i < len(path) && !os.IsPathSeparator(path[i]) {
			continue
		}
		at := path[:max(i, len(filepath.VolumeName(path))+1)]
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		if shut || info.Mode()&os.ModeSticky != 0 {
			err = c.owned(at, info)
		} else {
			err = c.trust(at, info)
		}
		if err != nil {
			return err
		}
		shut = shut || info.Mode()&enteredByOthers == 0
	}
	return nil
}

// trust refuses what is not this user's nor root's, and what others may write.
func (c *Cache) trust(path string, info fs.FileInfo) error {
	if err := c.owned(path, info); err != nil {
		return err
	}
	if info.Mode()&writableByOthers != 0 {
		return fmt.Errorf("%w: %s has mode %v: take that right away (chmod go-w %[2]s)",
			errUntrusted, path, info.Mode())
	}
	return nil
}

// owned refuses what is not this user's nor root's, who can replace programs, too.
func (c *Cache) owned(path string, info fs.FileInfo) error {
	owner, err := c.owner(info)
	if err == nil && owner != 0 && owner != c.user {
		err = fmt.Errorf("%w: %s belongs to user %d, this program to user %d: remove it, or name "+
			"another folder (%s)", errUntrusted, path, owner, c.user, EnvDir)
	}
	return err
}

// openTrusted opens a regular file of the folder that nobody else can have written. Another process
// of this user that writes the same entry may give its name to a new file at any time: either one
// will do.
func (c *Cache) openTrusted(root *os.Root, name string) (*os.File, error) {
	named, err := regular(root, name)
	if err != nil {
		return nil, err
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !os.SameFile(named, info) {
		_, err = regular(root, name)
	}
	if err == nil {
		err = c.trust(name, info)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// regular refuses what is no regular file: a link, above all; opening a pipe would wait.
func regular(root *os.Root, name string) (fs.FileInfo, error) {
	info, err := root.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s is no regular file", errUntrusted, name)
	}
	return info, err
}

// refuse tells of a file that is damaged, that was cut short while it was read or that another user
// could have written, and removes it. Of other errors the log has it at level debug: a file that is
// not there is the common case.
func (c *Cache) refuse(name string, why error) {
	if !errors.Is(why, errDamaged) && !errors.Is(why, errUntrusted) &&
		!errors.Is(why, fault.ErrFile) {
		if !errors.Is(why, fs.ErrNotExist) {
			c.log.Debug("plan cache: not read", "file", name, "error", why)
		}
		return
	}
	root, err := c.folder()
	if err != nil {
		return
	}
	defer root.Close()
	c.log.Warn("plan cache: file refused, it is made anew", "file",
		filepath.Join(c.dir, name), "error", strings.ReplaceAll(why.Error(), "\n", "; "))
	_ = root.Remove(name)
	if strings.HasSuffix(name, planSuffix) {
		_ = root.Remove(receiptOf(name))
	}
}
