package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/internal/nvml"
	"github.com/weirgpu/weir/internal/roofline"
	"github.com/weirgpu/weir/internal/terminal"
)

type deviceList struct {
	Devices  []device.Info   `json:"devices"`
	Topology device.Topology `json:"topology"`
	// Processor is the kind of the CPU, for whoever publishes figures from this machine.
	Processor roofline.Processor `json:"processor"`
}

func newDevice() *cobra.Command {
	var asJSON bool
	list := &cobra.Command{
		Use:   "list",
		Short: "List devices with memory, units and topology",
		Long: "List the CPU and the NVIDIA GPUs of this machine with memory, units and topology. " +
			"GPUs are found through the driver's\n" +
			"management library; the environment variable " + nvml.PathVariable +
			" names another one than the system's.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := listDevices()
			if err != nil {
				say(c.ErrOrStderr(), "%s", gpuNote(err))
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), l)
			}
			l.print(c.OutOrStdout())
			return nil
		},
	}
	list.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return group("device", "Devices of this machine", list)
}

// listDevices returns what there is; the error says why GPUs may be missing from it.
func listDevices() (deviceList, error) {
	gpus, err := nvml.Discover()
	devices := append([]device.Info{cpu.Discover()}, gpus...)
	return deviceList{
		Devices:   devices,
		Topology:  device.TopologyOf(devices),
		Processor: roofline.Identify(),
	}, err
}

// gpuNote says in one line why GPUs are missing from a list.
func gpuNote(err error) string {
	switch {
	case errors.Is(err, nvml.ErrNotBuilt):
		return "GPUs are not listed: this weir was built without GPU support"
	case errors.Is(err, nvml.ErrNoDriver):
		return "no GPUs: " + err.Error()
	}
	return "GPUs are missing from the list: " + strings.ReplaceAll(err.Error(), "\n", "; ")
}

func (l *deviceList) print(w io.Writer) {
	lines := &fitted{w: w}
	for i := range l.Devices {
		if l.Devices[i].Kind == device.CPU {
			printCPU(lines, &l.Devices[i])
		} else {
			printGPU(lines, &l.Devices[i])
		}
	}
	if len(l.Topology.Devices) == 0 {
		return
	}
	if d := l.Devices[len(l.Devices)-1].Driver; d != nil && d.Version != "" {
		say(w, "driver %s, CUDA %s, memory limit of its own: %s", d.Version, d.CUDA,
			yesNo(d.MemoryLimit))
	}
	fmt.Fprintln(w)
	table(l.Topology.Rows()).print(w)
	for _, text := range l.Topology.Legend() {
		say(w, "  %s", text)
	}
}

func printCPU(w io.Writer, d *device.Info) {
	fmt.Fprintf(w, "%s  %s  %d units  %s  %d NUMA nodes  %v\n", d.ID, d.Name, d.Units,
		terminal.Size(d.MemoryBytes), len(d.NUMA), d.Features)
}

func printGPU(w io.Writer, d *device.Info) {
	fmt.Fprintf(w, "%s  %s  %d units  %s, %s free", d.ID, d.Name, d.Units,
		terminal.Size(d.MemoryBytes), terminal.Size(d.FreeBytes))
	for _, part := range []struct{ label, value string }{
		{"compute capability", d.ComputeCapability}, {"PCI", d.PCI}, {"", d.UUID},
	} {
		if part.value != "" {
			fmt.Fprintf(w, "  %s", strings.TrimSpace(part.label+" "+part.value))
		}
	}
	if d.NUMANode != nil {
		fmt.Fprintf(w, "  NUMA node %d", *d.NUMANode)
	}
	fmt.Fprintln(w)
	if d.MIGEnabled {
		fmt.Fprintf(w, "        MIG on, %d instances\n", len(d.MIG))
	}
	for _, m := range d.MIG {
		fmt.Fprintf(w,
			"        %s  %d units  %s, %s free  GPU instance %d, compute instance %d  %s\n",
			m.Profile, m.Units, terminal.Size(m.MemoryBytes), terminal.Size(m.FreeBytes),
			m.GPUInstance, m.ComputeInstance, m.UUID)
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
