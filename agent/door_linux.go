package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
)

// openDoor listens in the folder that containers are given; nil if the agent is to have none. The
// runtime folder around it stays its owner's alone, so that nobody comes in by the path.
func openDoor(c *Config) (*net.UnixListener, error) {
	if !c.Door {
		return nil, nil
	}
	dir := DoorPath(c.Dir)
	path := SocketPath(dir)
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("agent: door %s: the path of a socket can have %d bytes, this one "+
			"has %d: set WEIR_RUNTIME_DIR to a shorter one", path, maxSocketPath, len(path))
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("agent: door: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("agent: door: %w", err)
	}
	ln, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return nil, fmt.Errorf("agent: door: %w", err)
	}
	// The umask may have taken away what other users need.
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(path, 0o666)); err != nil {
		_ = ln.Close()
		return nil, fmt.Errorf("agent: door: %w", err)
	}
	return ln, nil
}
