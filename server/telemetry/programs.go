package telemetry

import (
	"time"

	"github.com/weirgpu/weir"
)

// Programs is a device that programs share, and what they have of it.
type Programs struct {
	Device, Policy string
	// Memory is what may be promised, Promised what is, and Held what programs hold.
	Memory, Promised, Held weir.Bytes
	Jobs                   []Program
}

// Program is a job of programs.
type Program struct {
	Name      string
	Cap, Held weir.Bytes
	Used      time.Duration // of the device, that was charged
}

// usage is a program's, as far as it is known of one.
func (p *Program) usage() *weir.Usage {
	u := &weir.Usage{Name: p.Name, Used: p.Used, Memory: p.Held}
	u.Share.Memory = p.Cap
	return u
}

// programs are the devices of programs.
func (r *Recorder) programs() []Programs {
	if r.o.Programs == nil {
		return nil
	}
	return r.o.Programs()
}
