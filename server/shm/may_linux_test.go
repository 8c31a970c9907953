package shm

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMay: memory of another user is taken only where all users may read and write it.
func TestMay(t *testing.T) {
	other := uint32(os.Geteuid()) + 1
	for _, c := range []struct {
		of    unix.Stat_t
		taken bool
	}{
		{unix.Stat_t{Uid: uint32(os.Geteuid()), Mode: unix.S_IFREG | 0o600, Size: 8}, true},
		{unix.Stat_t{Uid: other, Mode: unix.S_IFREG | 0o600, Size: 8}, false},
		{unix.Stat_t{Uid: other, Mode: unix.S_IFREG | 0o660, Size: 8}, false},
		{unix.Stat_t{Uid: other, Mode: unix.S_IFREG | 0o664, Size: 8}, false},
		{unix.Stat_t{Uid: other, Mode: unix.S_IFREG | 0o662, Size: 8}, false},
		{unix.Stat_t{Uid: other, Mode: unix.S_IFREG | 0o666, Size: 8}, true},
		{unix.Stat_t{Uid: other, Mode: unix.S_IFIFO | 0o666, Size: 8}, false},
		{unix.Stat_t{Uid: other, Mode: unix.S_IFREG | 0o666, Size: 7}, false},
	} {
		err := may(&c.of, Info{Key: "/k", Size: 8})
		if (err == nil) != c.taken || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%o of %d with %d bytes: %v", c.of.Mode, c.of.Uid, c.of.Size, err)
		}
	}
	for mode, taken := range map[uint32]bool{0o600: false, 0o664: false, 0o666: true} {
		own := unix.Stat_t{Uid: uint32(os.Geteuid()), Mode: unix.S_IFREG | mode, Size: 8}
		err := may(&own, Info{Key: "/k", Size: 8, Foreign: true})
		if (err == nil) != taken || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("the server's own with %o, asked for by another user: %v", mode, err)
		}
	}
}
