package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver
)

// What lies in the folder.
const (
	fileName     = "state.db"
	blobsName    = "blobs"
	lockName     = "lock"
	readName     = "reading"   // is locked by those that read only
	restoreName  = "restoring" // is there while a restore is under way
	replacedName = "replaced"  // begins the names of folders with what restores replaced
)

// patience is how long a transaction waits for another process that has the file, such as one that
// reads it while it is recovered.
const patience = 10 * time.Second

// readers is how many reads may be under way at once; each has a cache of up to 2 MB.
const readers = 4

// Options say how a folder is opened.
type Options struct {
	// ReadOnly opens the state of a server that may be running, for reading: Write is refused, no
	// room's tables are changed, and blobs cannot be put or removed.
	ReadOnly bool
}

// Store is an open folder. It needs [Store.Close].
type Store struct {
	dir    string
	lock   *os.File
	writer *sql.DB // nil when read-only
	reader *sql.DB
	blobs  *Blobs
	rooms  []Room
	naming sync.Mutex // is held while a blob gets its name, and while those without one are removed
}

// DefaultDir is the folder of a server that names none: weir/server in the user's folder for
// state, which is $XDG_STATE_HOME, else ~/.local/state.
func DefaultDir() (string, error) {
	base := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) { // which the XDG specification says to pass over
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no folder for the server's state: %w: name one with --state",
				err)
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "weir", "server"), nil
}

// Exists reports whether a folder has a state.
func Exists(dir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, fileName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, notRestoring(dir)
	}
	return err == nil, err
}

// Open opens the folder, which it makes where there is none, and brings the tables of the rooms to
// their newest versions. Only one process has it open for writing. Errors name the folder.
func Open(ctx context.Context, dir string, o Options, rooms ...Room) (*Store, error) {
	s := &Store{dir: dir, rooms: rooms}
	err := s.open(ctx, o, rooms)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("state in %s: %w", dir, explain(err)), s.Close())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, o Options, rooms []Room) (err error) {
	path := filepath.Join(s.dir, fileName)
	if s.lock, err = take(s.dir, o); err != nil {
		return err
	}
	if err = notRestoring(s.dir); err != nil {
		return err
	}
	if !o.ReadOnly {
		if err = tidy(s.dir); err != nil {
			return err
		}
		if err = create(path); err != nil {
			return err
		}
		if s.writer, err = connect(path, 1, "_pragma", "journal_mode(WAL)", "_pragma",
			"synchronous(FULL)", "_txlock", "immediate"); err != nil {
			return err
		}
		if err = check(ctx, s.writer); err != nil {
			return err
		}
		if err = s.migrate(ctx, rooms); err != nil {
			return err
		}
		// the file itself must be there after power is lost, and not only what is in it
		if err = syncFolder(s.dir); err != nil {
			return err
		}
	}
	if s.reader, err = connect(path, readers, "_pragma", "query_only(ON)"); err != nil {
		return err
	}
	if o.ReadOnly {
		if err = s.upToDate(ctx, rooms); err != nil {
			return err
		}
	}
	s.blobs, err = openBlobs(filepath.Join(s.dir, blobsName), o.ReadOnly)
	if err == nil && !o.ReadOnly {
		err = s.sweep(ctx)
	}
	return err
}

// take locks the folder. One that is only read must have a state.
func take(dir string, o Options) (*os.File, error) {
	if !o.ReadOnly {
		return lock(dir)
	}
	if has, err := Exists(dir); err != nil || !has {
		return nil, cmp.Or(err, fs.ErrNotExist)
	}
	return reading(dir)
}

// tidy removes what backups and restores that were interrupted had copied.
func tidy(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, incomingName+"*"))
	for _, path := range left {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

// create makes an empty file that only its owner may read, as SQLite's files beside it then are;
// one that is there stays.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// connect opens a file with so many connections at most; settings come in pairs.
func connect(path string, most int, settings ...string) (*sql.DB, error) {
	q := url.Values{"_pragma": {fmt.Sprintf("busy_timeout(%d)", patience.Milliseconds()),
		"foreign_keys(ON)"}}
	for i := 0; i < len(settings); i += 2 {
		q.Add(settings[i], settings[i+1])
	}
	name := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(),
		RawQuery: q.Encode()}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns(most)
	return db, nil
}

// check finds damage before anything is written: SQLite's own check of the pages, their order and
// what rows are made of.
func check(ctx context.Context, db *sql.DB) error {
	var found string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&found); err != nil {
		return err
	}
	if found != "ok" {
		return fmt.Errorf("%w: %s", ErrDamaged, found)
	}
	return nil
}

// Dir is the folder.
func (s *Store) Dir() string { return s.dir }

// Blobs are the blobs of the folder.
func (s *Store) Blobs() *Blobs { return s.blobs }

// Write runs f in a transaction of its own, one at a time. When f returns nil it is committed: once
// Write returns nil, all of it is on the disk. Otherwise nothing of it is, and Write returns f's
// error. After an error of the commit itself, which says so, either may be. f uses tx only, and
// must be short: others wait. ctx ends the wait and the transaction.
func (s *Store) Write(ctx context.Context, f func(tx *sql.Tx) error) error {
	if s.writer == nil {
		return fmt.Errorf("state in %s: %w", s.dir, ErrReadOnly)
	}
	return explain(transaction(ctx, s.writer, f))
}

// Read runs f on the state as it is when f first reads, until f returns. f uses tx only.
func (s *Store) Read(ctx context.Context, f func(tx *sql.Tx) error) error {
	return explain(transaction(ctx, s.reader, f))
}

func transaction(ctx context.Context, db *sql.DB, f func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after a commit this does nothing
	if err := f(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// Close ends all transactions, and lets another process write.
func (s *Store) Close() error {
	var err error
	for _, db := range []*sql.DB{s.reader, s.writer} {
		if db != nil {
			err = errors.Join(err, db.Close())
		}
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}

// notRestoring reports a restore that did not come to its end.
func notRestoring(dir string) error {
	_, err := os.Stat(filepath.Join(dir, restoreName))
	switch {
	case err == nil:
		return ErrRestoring
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}
