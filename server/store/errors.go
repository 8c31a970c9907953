package store

import (
	"errors"
	"fmt"
	"syscall"

	"modernc.org/sqlite"
)

// Kinds of errors.
var (
	// ErrDamaged is a file that is no state of weir's, or one whose pages contradict each other.
	ErrDamaged = errors.New("the file is damaged: it was left as it is; bring back a backup with " +
		"weir restore, or move it away to begin without one")
	// ErrNewer is a file that a newer weir has written.
	ErrNewer = errors.New("a newer weir has written it: use that one, or restore a backup made " +
		"before")
	// ErrOlder is a file that is to be read only, and whose tables are older than this weir's.
	ErrOlder = errors.New("an older weir has written it: start weir up on it once")
	// ErrRunning is a folder that another process writes.
	ErrRunning = errors.New("another weir uses it: stop that one first")
	// ErrReading is a folder that another process reads, and from which nothing may be moved.
	ErrReading = errors.New("another weir reads it: wait until that one has ended")
	// ErrRestoring is a folder in which a restore was interrupted.
	ErrRestoring = errors.New("a restore was interrupted: run weir restore again; what it " +
		"replaced is in the folders replaced-*")
	// ErrExists is a row or a blob that is there already.
	ErrExists = errors.New("exists already")
	// ErrFull is a disk without room.
	ErrFull = errors.New("the disk is full")
	// ErrReadOnly is a write to what was opened for reading.
	ErrReadOnly = errors.New("opened for reading")
	// ErrNoBlob is a digest of which there is no blob.
	ErrNoBlob = errors.New("no such blob")
)

// The result codes that have a kind (sqlite.org/rescode.html). The lowest byte of an extended code
// is the primary one.
const (
	codeCorrupt       = 11
	codeFull          = 13
	codeNotADatabase  = 26
	codeNotUniqueKey  = 1555
	codeNotUnique     = 2067
	primaryCodesBelow = 256
)

// explain adds the kind to an error of SQLite.
func explain(err error) error {
	var s *sqlite.Error
	if !errors.As(err, &s) {
		return err
	}
	kind := error(nil)
	switch s.Code() % primaryCodesBelow {
	case codeCorrupt, codeNotADatabase:
		kind = ErrDamaged
	case codeFull:
		kind = ErrFull
	}
	switch s.Code() {
	case codeNotUniqueKey, codeNotUnique:
		return ErrExists // the text names tables, which say nothing to people
	}
	if kind == nil || errors.Is(err, kind) {
		return err
	}
	return fmt.Errorf("%w (%w)", kind, err)
}

// explainFile adds the kind to an error of a file.
func explainFile(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w (%w)", ErrFull, err)
	}
	return err
}
