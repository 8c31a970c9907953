package catalogue

import "github.com/weirgpu/weir/share"

const (
	gb = 1e9
	tf = 1e12

	// PCI Express x16 in one direction, by generation, as data sheets round it.
	gen3, gen4, gen5 = 16 * gb, 32 * gb, 64 * gb

	// A unit has 64K registers of 32 bits in all of these.
	registers = 256 * share.KiB
)

const (
	guide = "CUDA C++ Programming Guide, technical specifications by compute capability: 64K " +
		"registers and shared memory of a multiprocessor, capability "
	migGuide = "NVIDIA Multi-Instance GPU User Guide, supported GPUs"
	switches = "computed from units, registers and shared memory, and bandwidth as Tanasic et " +
		"al., ISCA 2014, section 3.2"
	interfaces = "CUDA Driver API, green contexts (partition, and more units at a kernel's " +
		"launch), Multi-Process Service (overlap); weir exec holds back launches and copies; " +
		"spilling is a copy of buffers that their job gives up; instances divide bandwidth; no " +
		"interface preempts a kernel"
)

// can is what the driver's interfaces allow on all devices here.
var can = share.Can{Partition: true, Overlap: true, Resize: true, Spill: true, Launches: true,
	Copies: true}

// All returns the devices, oldest first.
func All() []Device {
	list := []Device{
		{Name: "v100", Title: "NVIDIA V100 SXM2 32 GB", Units: 80, Memory: 32 * share.GiB,
			Bandwidth: 900 * gb, Link: gen3, Peak: 15.7 * tf, Local: registers + 96*share.KiB,
			Sources: Sources{Units: "NVIDIA Tesla V100 GPU Architecture, WP-08608-001, table 1",
				Memory: "NVIDIA V100 data sheet, January 2020", Local: guide + "7.0"}},
		{Name: "a10", Title: "NVIDIA A10", Units: 72, Memory: 24 * share.GiB,
			Bandwidth: 600 * gb, Link: gen4, Peak: 31.2 * tf, Local: registers + 100*share.KiB,
			Sources: Sources{Units: "NVIDIA A10 data sheet: 9,216 CUDA cores, 128 a " +
				"multiprocessor (Ampere GA102 whitepaper)",
				Memory: "NVIDIA A10 data sheet, March 2021", Local: guide + "8.6"}},
		{Name: "l40s", Title: "NVIDIA L40S", Units: 142, Memory: 48 * share.GiB,
			Bandwidth: 864 * gb, Link: gen4, Peak: 91.6 * tf, Local: registers + 100*share.KiB,
			Sources: Sources{Units: "NVIDIA L40S data sheet: 18,176 CUDA cores, 128 a " +
				"multiprocessor (Ada whitepaper)",
				Memory: "NVIDIA L40S data sheet, 2023", Local: guide + "8.9"}},
	}
	return finish(append(append(list, a100s()...), hoppers()...))
}

func a100s() []Device {
	source := Sources{Units: "NVIDIA A100 Tensor Core GPU Architecture, V1.0, table 4",
		Memory: "NVIDIA A100 data sheet, June 2021", Instances: migGuide, Local: guide + "8.0"}
	a100 := func(name, title string, memory share.Bytes, bandwidth float64) Device {
		return Device{Name: name, Title: title, Units: 108, Memory: memory, Bandwidth: bandwidth,
			Link: gen4, Peak: 19.5 * tf, Instances: 7, Local: registers + 164*share.KiB,
			Sources: source}
	}
	return []Device{
		a100("a100-40", "NVIDIA A100 SXM4 40 GB", 40*share.GiB, 1555*gb),
		a100("a100", "NVIDIA A100 SXM4 80 GB", 80*share.GiB, 2039*gb),
	}
}

func hoppers() []Device {
	hopper := func(name, title, sheet string, units int, memory share.Bytes, bandwidth,
		peak float64) Device {
		return Device{Name: name, Title: title, Units: units, Memory: memory, Bandwidth: bandwidth,
			Link: gen5, Peak: peak, Instances: 7, Local: registers + 228*share.KiB,
			Sources: Sources{Units: "NVIDIA H100 Tensor Core GPU Architecture, V1.04, table 3; " +
				"the H200 has the same GH100 chip", Memory: sheet, Instances: migGuide,
				Local: guide + "9.0"}}
	}
	return []Device{
		hopper("h100-pcie", "NVIDIA H100 PCIe 80 GB", "NVIDIA H100 PCIe data sheet, 2023", 114,
			80*share.GiB, 2000*gb, 51*tf),
		hopper("h100", "NVIDIA H100 SXM5 80 GB", "NVIDIA H100 data sheet, 2023", 132,
			80*share.GiB, 3350*gb, 67*tf),
		hopper("h200", "NVIDIA H200 SXM 141 GB", "NVIDIA H200 data sheet, 2024", 132,
			141*share.GiB, 4800*gb, 67*tf),
	}
}

// finish fills in what is the same for all.
func finish(list []Device) []Device {
	for i := range list {
		d := &list[i]
		d.Can, d.Sources.Can, d.Sources.Switch = can, interfaces, switches
		d.Can.Bandwidth = d.Instances > 0
	}
	return list
}
