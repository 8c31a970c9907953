package kernels

import (
	"fmt"
	"runtime"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/kernel/conv"
	"github.com/weirgpu/weir/internal/kernel/gemm"
)

// Target is the CPU that info describes as something to compile for, on the path of instructions
// that is in force.
func Target(info device.Info) compute.Target { return target{info} }

type target struct{ info device.Info }

// Info implements [compute.Target].
func (t target) Info() device.Info { return t.info }

// Identity implements [compute.Target]. Tiles count as the processor has them until a kernel wants
// some: where the system then refuses them, the identity is another.
func (t target) Identity() string {
	path := cpuinfo.CurrentPath().String()
	if cpuinfo.TilesDefined() {
		path += " tiles"
	}
	// rates are those of a kind of processor
	return fmt.Sprintf("cpu %s %s %s %v %q", runtime.GOOS, runtime.GOARCH, path,
		cpuinfo.Processor(), t.info.Features)
}

// Features implements [compute.Target].
func (t target) Features() compute.Features {
	fast := gemm.BF16.Fast()
	var rate ratesOf
	if fast {
		rate = bf16Rates()
	}
	var pixels *compute.Asked
	if cpuinfo.HasTiles() || cpuinfo.TilesDefined() {
		pixels = compute.Ask(conv.HasNHWC16)
	}
	return compute.Features{
		BF16:      fast,
		NHWC:      conv.HasNHWC(),
		FastBytes: cpuinfo.HasAVX2FMA(),
		FastWords: cpuinfo.HasAVX512VNNI(),
		Pixels:    pixels,
		Costs: compute.Costs{
			Rounding:      6,
			BF16Rate:      rate.long,
			BF16Short:     rate.short,
			ShortSteps:    ratedShort,
			Finishing:     24,
			TiledWeights:  256 * 256,
			TiledPixels:   28 * 28,
			SharedQueries: 16,
		},
	}
}

// Prepare implements [compute.Target].
func (t target) Prepare(r *compute.Request) (compute.Kernel, error) { return prepare(r) }
