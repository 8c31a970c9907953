package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Names of files in the runtime folder.
const (
	socketName = "agent.sock"
	doorName   = "join"
	lockName   = "agent.lock"
)

var (
	// ErrRunning: another agent has the runtime folder.
	ErrRunning = errors.New("another agent is running")
	// ErrForeign: the runtime folder, or what listens in it, is not this user's.
	ErrForeign = errors.New("not this user's")
)

// RuntimeDir returns the folder of the socket: $WEIR_RUNTIME_DIR, else $XDG_RUNTIME_DIR/weir, else
// weir-UID in the folder for temporary files. An agent of the fake driver has another one, unless
// WEIR_RUNTIME_DIR names one. It is not made.
func RuntimeDir(fake bool) string {
	if dir := os.Getenv("WEIR_RUNTIME_DIR"); dir != "" {
		return dir
	}
	suffix := ""
	if fake {
		suffix = "-fake"
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "weir"+suffix)
	}
	return filepath.Join(os.TempDir(), "weir-"+strconv.Itoa(os.Getuid())+suffix)
}

// maxSocketPath is what fits into sockaddr_un (unix(7)) before the zero at its end.
const maxSocketPath = 107

// SocketPath returns the agent's socket in a runtime folder.
func SocketPath(dir string) string { return filepath.Join(dir, socketName) }

// DoorPath returns the folder of the socket by which programs in containers join jobs; see
// [Config]. It has nothing but that socket in it, named as that of [SocketPath]: a container is
// given the folder, and so sees the socket of the next agent too.
func DoorPath(dir string) string { return filepath.Join(dir, doorName) }

// MakeRuntimeDir makes the runtime folder, for its owner only, or checks the one that is there: in
// a folder for all users, somebody else can have made it.
func MakeRuntimeDir(dir string) error {
	if path := SocketPath(dir); len(path) > maxSocketPath {
		return fmt.Errorf(
			"runtime folder %s: the path of a socket can have %d bytes, this one has %d: set "+
				"WEIR_RUNTIME_DIR to a shorter one",
			dir,
			maxSocketPath,
			len(path),
		)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("runtime folder: %w", err)
	}
	if err := CheckRuntimeDir(dir); err != nil {
		return err
	}
	fi, err := os.Lstat(dir)
	if err == nil && fi.Mode().Perm()&0o077 != 0 {
		err = os.Chmod(dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("runtime folder: %w", err)
	}
	return nil
}

// CheckRuntimeDir reports, as [ErrForeign], that a folder is none or not this user's: what answers
// in it may be anybody. The error is of kind fs.ErrNotExist where there is none.
func CheckRuntimeDir(dir string) error {
	fi, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("runtime folder: %w", err)
	}
	if !fi.IsDir() {
		return fmt.Errorf("runtime folder %s: is not a folder, and so %w: set WEIR_RUNTIME_DIR to "+
			"another", dir, ErrForeign)
	}
	if uid, ok := owner(fi); ok && uid != ownUID {
		return fmt.Errorf("runtime folder %s: belongs to user %d: %w: set WEIR_RUNTIME_DIR to a "+
			"folder of your own", dir, uid, ErrForeign)
	}
	return nil
}
