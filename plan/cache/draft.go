package cache

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
)

// draft is an entry to be written. Its constants are still where the model has them.
type draft struct {
	entry
	parts  []part
	length int64 // of the constants
}

// part is a constant and its place.
type part struct {
	at   int64
	data []byte
}

// newDraft lays out the constants of a plan and writes its graph. The key is not set.
func newDraft(p *plan.Plan, weights []byte) (*draft, error) {
	d := &draft{entry: entry{fingerprint: p.Fingerprint(), weights: weights}}
	absorbed, placed := p.Absorbed(), map[*tensor.Tensor]int64{}
	var text strings.Builder
	err := graph.PrintExternal(&text, p.Graph, func(t *tensor.Tensor) (int64, bool) {
		if len(t.Data) < minExternal || t.DType == tensor.String || t.DType.IsContainer() {
			return 0, false
		}
		if absorbed[t] {
			return leftOut, true
		}
		at, ok := placed[t]
		if !ok {
			at = alignUp(d.length, device.Alignment)
			placed[t], d.length = at, at+int64(len(t.Data))
			d.parts = append(d.parts, part{at, t.Data})
		}
		return at, true
	})
	d.text = []byte(text.String())
	n := chunks(int(d.length)) + chunks(len(weights))
	d.sums, d.digests = make([]byte, 4*n), make([]byte, sha256.Size*n)
	return d, err
}

// sections are the places of the parts in the file.
func (d *draft) sections() sections {
	s, _ := layOut(uint64(d.tableBytes()), uint64(d.length), uint64(len(d.weights)))
	return s
}

// writeSections writes constants and weights to an empty file.
func (d *draft) writeSections(f *os.File) error {
	at := d.sections()
	if err := d.writeConstants(f, at.constantsAt); err != nil {
		return err
	}
	if err := d.writeWeights(f, at.weightsAt); err != nil {
		return err
	}
	return f.Truncate(at.size) // sections may be empty
}

// writeHead writes the rest, once the key is set.
func (d *draft) writeHead(f *os.File) error {
	_, err := f.WriteAt(d.head(int(d.length), len(d.weights)), 0)
	return err
}

// Huge pages are written at a stroke until a few have taken longer than dearWrite, many times what
// copying takes: the system, or the host of a virtual machine, has to make room for them, which
// would keep the program for seconds.
const (
	dearWrite  = 8 * time.Millisecond
	dearWrites = 3
)

func (d *draft) writeWeights(f *os.File, at int64) error {
	first := chunks(int(d.length))
	for i := range chunks(len(d.weights)) {
		chunk := chunkOf(d.weights, i)
		binary.LittleEndian.PutUint32(d.sums[4*(first+i):], checksum(chunk))
		sum := sha256.Sum256(chunk)
		copy(d.digests[sha256.Size*(first+i):], sum[:])
	}
	return writePages(f, d.weights, at, time.Now)
}

// writePages writes data from a place on, a huge page at a stroke while that is cheap by the clock.
func writePages(f io.WriterAt, data []byte, at int64, clock func() time.Time) error {
	dear := 0
	for len(data) > 0 {
		n := min(len(data), hugePage)
		if dear == dearWrites {
			n = min(n, chunkBytes)
		}
		began := clock()
		if _, err := f.WriteAt(data[:n], at); err != nil {
			return err
		}
		if clock().Sub(began) > dearWrite && dear < dearWrites {
			dear++
		}
		data, at = data[n:], at+int64(n)
	}
	return nil
}

func (d *draft) writeConstants(f *os.File, at int64) error {
	if _, err := f.Seek(at, 0); err != nil {
		return err
	}
	w := &summing{w: bufio.NewWriterSize(f, 1<<20), sums: d.sums, digests: d.digests,
		chunk: sha256.New()}
	gap := make([]byte, device.Alignment)
	for _, p := range d.parts {
		w.write(gap[:p.at-w.n])
		w.write(p.data)
	}
	if w.n%chunkBytes > 0 {
		w.endChunk()
	}
	return w.w.Flush()
}

// summing writes chunks and keeps the checksums of each.
type summing struct {
	w             *bufio.Writer
	n             int64
	sums, digests []byte
	chunk         hash.Hash // SHA-256 of the chunk so far
}

// write leaves errors to Flush.
func (s *summing) write(data []byte) {
	for len(data) > 0 {
		i := s.n / chunkBytes
		n := min(int64(len(data)), (i+1)*chunkBytes-s.n)
		_, _ = s.w.Write(data[:n])
		sum := s.sums[4*i:]
		binary.LittleEndian.PutUint32(sum,
			crc32.Update(binary.LittleEndian.Uint32(sum), castagnoli(), data[:n]))
		_, _ = s.chunk.Write(data[:n])
		s.n += n
		data = data[n:]
		if s.n%chunkBytes == 0 {
			s.endChunk()
		}
	}
}

// endChunk keeps the SHA-256 of the chunk that ends here.
func (s *summing) endChunk() {
	copy(s.digests[sha256.Size*((s.n-1)/chunkBytes):], s.chunk.Sum(nil))
	s.chunk.Reset()
}
