package engine

import (
	"errors"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/far"
	"github.com/weirgpu/weir/tensor"
)

// refusing is a device to which copies fail once some have gone well.
type refusing struct {
	*far.Device
	well int
}

func (d *refusing) Alloc(bytes int64) (device.Buffer, error) {
	b, err := d.Device.Alloc(bytes)
	return &refusingBuffer{b, d}, err
}

type refusingBuffer struct {
	device.Buffer
	device *refusing
}

func (b *refusingBuffer) CopyIn(off int64, src []byte) error {
	if b.device.well == 0 {
		return errCopy
	}
	b.device.well--
	return b.Buffer.CopyIn(off, src)
}

// TestRefusedCopies has the copies fail that bring constants to a device, of its own making and
// given, and into an arena: nobody is charged for what did not come about.
func TestRefusedCopies(t *testing.T) {
	g := parseGraph(t, `graph "both kinds" {
		opset "" 17
		input %x: float32[2048]
		const %b: float32[] = {5}
		const %size: int64[1] = {2048}
		%k: float32[2048] = ConstantOfShape@17 (%size) {value=tensor float32[1] {2}}
		%y: float32[2048] = Mul@17 (%x, %k)
		%z: float32[2048] = Add@17 (%y, %b)
		output %z
	}`)
	d, b := &refusing{Device: openFar(t, 0)}, newBench(t)
	p := compiledFar(t, d.Device, g, nil)
	host := &ledger{cap: 1 << 20}
	check := func(when string, err error, held int64) {
		t.Helper()
		if !errors.Is(err, errCopy) || b.quota.sum() != held || d.Held() != held ||
			host.sum() != 0 {
			t.Errorf("%s: error %v; %d bytes are granted, %d held, want %d; %d of the host", when,
				err, b.quota.sum(), d.Held(), held, host.sum())
		}
	}
	o := Options{Device: d, Pool: b.pool, Quota: b.quota, HostQuota: host}
	_, err := Load(p, o)
	check("constants", err, 0)
	given := o
	given.Weights = make([]byte, p.PackedBytes)
	_, err = Load(p, given)
	check("given weights", err, 0)
	d.well = 1
	s, err := Load(p, o)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Take()
	check("an arena", err, p.PackedBytes)
	s.Close()
	check("closed", errCopy, 0)
}

// TestRefusedWrap gives weights to a device that has a byte less than they have: the quota gets
// them back.
func TestRefusedWrap(t *testing.T) {
	b, p := newBench(t), network(t)
	d, err := cpu.Open("cpu:0", cpu.Options{MemoryBytes: p.PackedBytes - 1})
	if err != nil {
		t.Fatal(err)
	}
	mem, err := tensor.New(tensor.Uint8, int(p.PackedBytes))
	if err != nil {
		t.Fatal(err)
	}
	o := b.options()
	o.Device, o.Weights = d, mem.Data
	if _, err := Load(p, o); !errors.Is(err, device.ErrOutOfMemory) || b.quota.sum() != 0 {
		t.Errorf("error %v, %d bytes are granted", err, b.quota.sum())
	}
}

// TestDevicesDoNotShare loads one plan on two devices for one job: each has weights of its own.
func TestDevicesDoNotShare(t *testing.T) {
	b, p := newBench(t), network(t)
	d, err := cpu.Open("cpu:0", cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := b.options()
	if o.Like, err = Load(p, o); err != nil {
		t.Fatal(err)
	}
	defer o.Like.Close()
	o.Device = d
	s, err := Load(p, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if d.Held() != p.PackedBytes || b.quota.sum() != 2*p.PackedBytes {
		t.Errorf("%d bytes held on the second device, %d granted, want %d and twice that",
			d.Held(), b.quota.sum(), p.PackedBytes)
	}
}
