package main

import (
	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/scenario"
)

// newDebug holds commands that are outside the compatibility promise.
func newDebug() *cobra.Command {
	c := group("debug", "Commands without a promise to stay", &cobra.Command{
		Use:   "job",
		Short: "Run one job of a scenario as a process of its own, told by standard input",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return failed(scenario.RunChild(c.Context(), c.InOrStdin(), c.OutOrStdout(),
				trainer))
		},
	})
	c.Hidden = true
	return c
}
