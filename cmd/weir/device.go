package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu"
)

type deviceList struct {
	Devices []device.Info `json:"devices"`
}

func newDevice() *cobra.Command {
	c := &cobra.Command{Use: "device", Short: "Devices of this machine", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	var asJSON bool
	list := &cobra.Command{
		Use:   "list",
		Short: "List devices with memory, units and topology",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			l := deviceList{[]device.Info{cpu.Discover()}}
			if asJSON {
				return printJSON(c.OutOrStdout(), l)
			}
			for _, d := range l.Devices {
				fmt.Fprintf(c.OutOrStdout(), "%s  %s  %d units  %.1f GiB  %d NUMA nodes  %v\n", d.ID, d.Name, d.Units,
					float64(d.MemoryBytes)/(1<<30), len(d.NUMA), d.Features)
			}
			return nil
		},
	}
	list.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.AddCommand(list)
	return c
}
