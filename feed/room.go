package feed

import (
	"fmt"
	"io"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/share"
)

// room is the memory that the inputs of a request may take together. Who reads them asks it for
// each, so that a file larger than the machine's memory is refused in place of ending the process.
type room struct {
	most int64 // bytes; 0 stands for any number
	used int64
}

// reader returns what reads from a reader and takes room for it. Where there is none left it fails
// with device.ErrOutOfMemory.
func (r *room) reader(from io.Reader) io.Reader { return &roomReader{r, from} }

type roomReader struct {
	room *room
	from io.Reader
}

// Read implements io.Reader.
func (r *roomReader) Read(p []byte) (int, error) {
	if r.room.most == 0 || len(p) == 0 {
		return r.from.Read(p)
	}
	left := r.room.most - r.room.used
	if left == 0 { // which is no error where there is nothing more, either
		n, err := r.from.Read(make([]byte, 1))
		if n > 0 {
			err = fmt.Errorf("%w: inputs of more than %s, which is all that they may have: raise "+
				"memory or give smaller ones", device.ErrOutOfMemory,
				share.Bytes(r.room.most).About())
		}
		return 0, err
	}
	n, err := r.from.Read(p[:min(int64(len(p)), left)])
	r.room.used += int64(n)
	return n, err
}
