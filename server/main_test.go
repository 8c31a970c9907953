package server

import (
	"os"
	"testing"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
)

// TestMain opens a model before there are tests whose time is virtual: the device that all models
// share, with its threads, is made with the first one and outlives them.
func TestMain(m *testing.M) {
	if first, err := weir.Load(digits.Model); err != nil || first.Close() != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
