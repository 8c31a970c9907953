//go:build nogpu

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// run says that the simulator is not there: the static binary has a bound on its size.
func (f *clusterFlags) run(*cobra.Command, []string) error {
	return failed(errors.New("this build has no simulator of clusters, as it was built with the " +
		"tag nogpu: go install ./cmd/weir builds it"))
}
