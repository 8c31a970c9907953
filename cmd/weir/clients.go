package main

import (
	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/share"
)

// clientFlags are what clients of other servers of the protocol expect of this one.
type clientFlags struct {
	name   string
	memory string
	cache  share.Bytes
}

func (f *clientFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.name, "id", "weir", "the `NAME` that the server says it has; clients "+
		"that were written for Triton may look for triton")
	c.Flags().StringVar(&f.memory, "shared-memory", "", "let clients on this machine register "+
		"shared memory whose name begins with `PREFIX`, such as / for all (default: none)")
	c.Flags().TextVar(&f.cache, "response-cache", share.Bytes(0), "most memory of answers that "+
		"are kept for equal requests, a `SIZE` such as 64MiB, of models whose config.pbtxt has "+
		"response_cache")
}
