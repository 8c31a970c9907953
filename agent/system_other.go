//go:build !linux

package agent

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
)

func owner(fs.FileInfo) (uint32, bool) { return 0, false }

func listen(string) (*net.UnixListener, *os.File, error) {
	return nil, nil, fmt.Errorf("agent: %w", wire.ErrUnsupported)
}

func openDoor(*Config) (*net.UnixListener, error) { return nil, nil }

func readPacket(*net.UnixConn, []byte) (int, *os.File, error) { return 0, nil, wire.ErrUnsupported }

func writePacket(*net.UnixConn, []byte, *os.File) error { return wire.ErrUnsupported }

func listener(*net.UnixConn) (uint32, error) { return 0, wire.ErrUnsupported }

func openOwn(string) (*os.File, error) { return nil, wire.ErrUnsupported }

func idOf(*os.File) pageID { return pageID{} }

func dup(*os.File) (*os.File, error) { return nil, wire.ErrUnsupported }

func hostMemory() share.Bytes { return 0 }

func prompt() {}

func newSystem() system { return unsupported{} }

type unsupported struct{}

func (unsupported) peer(*net.UnixConn) (peer, error) { return peer{}, wire.ErrUnsupported }

func (unsupported) find(uint32, uint64) (process, error) { return nil, wire.ErrUnsupported }

func detached() *syscall.SysProcAttr { return nil }
