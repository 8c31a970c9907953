//go:build !noasm

package cpuinfo

import "testing"

// TestPermissionsAreRead holds that the system's answer is read right: every process has the
// permission for the state of x87, and none for one that does not exist.
func TestPermissionsAreRead(t *testing.T) {
	x87, err := permits(0)
	if err != nil {
		t.Skip(err) // Linux before 5.16
	}
	if none, err := permits(60); !x87 || none || err != nil {
		t.Errorf("x87 %v, feature 60 %v, %v", x87, none, err)
	}
}
