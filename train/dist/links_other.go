//go:build !linux

package dist

import (
	"errors"
	"net"
	"os"
)

var errSystem = errors.New("several processes train together on Linux alone")

// Pipe fails: memory without a name is Linux's.
func Pipe(int) ([]*Links, error) { return nil, errSystem }

// Inherit fails.
func Inherit(int, int) (*Links, error) { return nil, errSystem }

func connection(*os.File) (net.Conn, error)  { return nil, errSystem }
func mapped(*os.File, int64) ([]byte, error) { return nil, errSystem }
func unmap([]byte)                           {}
