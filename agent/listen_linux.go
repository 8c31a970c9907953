package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/weirgpu/weir/internal/filelock"
)

func owner(fi fs.FileInfo) (uint32, bool) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return st.Uid, true
}

// listen takes the runtime folder's lock, which the kernel gives back when the agent dies, and then
// its socket, which a dead agent may have left.
func listen(dir string) (*net.UnixListener, *os.File, error) {
	if err := MakeRuntimeDir(dir); err != nil {
		return nil, nil, err
	}
	lock, err := filelock.Take(filepath.Join(dir, lockName), false)
	switch {
	case errors.Is(err, filelock.ErrTaken):
		return nil, nil, fmt.Errorf("agent: runtime folder %s: %w", dir, ErrRunning)
	case err != nil:
		return nil, nil, fmt.Errorf("agent: lock: %w", err)
	}
	path := SocketPath(dir)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		_ = lock.Close()
		return nil, nil, fmt.Errorf("agent: %w", err)
	}
	ln, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		_ = lock.Close()
		return nil, nil, fmt.Errorf("agent: %w", err)
	}
	// The folder is its owner's alone, so nobody else comes in before this.
	if err := os.Chmod(path, 0o600); err != nil {
		_ = ln.Close()
		_ = lock.Close()
		return nil, nil, fmt.Errorf("agent: %w", err)
	}
	return ln, lock, nil
}

// readPacket reads a packet and the first descriptor that came with it. Others are closed.
func readPacket(c *net.UnixConn, buf []byte) (int, *os.File, error) {
	oob := make([]byte, unix.CmsgSpace(4*16))
	n, oobn, _, _, err := c.ReadMsgUnix(buf, oob)
	if err != nil || oobn == 0 {
		return n, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return n, nil, fmt.Errorf("control message: %w", err)
	}
	var file *os.File
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue
		}
		for _, fd := range fds {
			if file == nil {
				unix.CloseOnExec(fd)
				file = os.NewFile(uintptr(fd), "page")
				continue
			}
			_ = unix.Close(fd)
		}
	}
	return n, file, nil
}

// writePacket writes a packet, with a descriptor if there is one.
func writePacket(c *net.UnixConn, packet []byte, file *os.File) error {
	var oob []byte
	if file != nil {
		oob = unix.UnixRights(int(file.Fd()))
	}
	_, _, err := c.WriteMsgUnix(packet, oob, nil)
	return err
}

// dup gives a descriptor of its own to what outlives the peer.
func dup(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// detached puts a process in a session of its own, out of reach of the terminal's signals.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
