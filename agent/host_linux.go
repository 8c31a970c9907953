package agent

import (
	"golang.org/x/sys/unix"

	"github.com/weirgpu/weir/share"
)

// hostMemory is what this machine has of memory; 0 if that is not known.
func hostMemory() share.Bytes {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return share.Bytes(uint64(info.Totalram) * uint64(info.Unit))
}
