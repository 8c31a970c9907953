package rpc

import (
	"slices"
	"testing"

	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/auth"
)

// TestMethodsHaveRows: every method has a row in the table of rights, and the table has no other.
func TestMethodsHaveRows(t *testing.T) {
	var rows []string
	for _, e := range auth.Endpoints {
		rows = append(rows, e.RPC...)
	}
	s := New(Options{Server: begin(t, server.Options{}).models})
	t.Cleanup(s.Close)
	for method := range s.methods {
		if !slices.Contains(rows, method) {
			t.Errorf("%s has no row in auth.Endpoints", method)
		}
	}
	for _, row := range rows {
		if s.methods[row] == nil {
			t.Errorf("auth.Endpoints has %s, which there is not", row)
		}
	}
}
