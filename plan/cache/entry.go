package cache

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/fault"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
)

// An entry is a file of little-endian numbers:
//
//	head    magic, digest, version, lengths of table, constants, weights
//	table   key, fingerprint of the plan, CRC-32C of each chunk of constants and of weights,
//	        SHA-256 of each, text of the graph
//	constants that steps read where they are, each aligned to [device.Alignment]
//	weights packed for the kernels
//
// The digest is the SHA-256 of the table and of the part of the head that follows the digest. It
// covers the whole entry except gaps, because the table holds the SHA-256 of each chunk; and it
// covers the model, because the table holds the key, which is made from the model's SHA-256.
//
// Constants and weights begin at multiples of sectionAlign, those that fill a huge page at
// multiples of that, and chunks with them; the file ends with the weights.
const (
	magic         = "weirplan"
	formatVersion = 3
	digestEnd     = len(magic) + sha256.Size
	headBytes     = digestEnd + 4 + 3*8

	// sectionAlign is a multiple of the page size of every system that Go runs on.
	sectionAlign = 64 << 10
	chunkBytes   = 1 << 20

	// hugePage is the size of a huge page of most systems. A part of a file that begins at a
	// multiple of it and was written at a stroke lies in one where the file system has large
	// folios, and is then mapped as one: that spares a start most page faults, and products that
	// read weights from memory most misses of the address translation.
	hugePage = 2 << 20

	// minExternal is the size in bytes from which a constant is kept beside the text. It is above
	// that of every constant whose elements shape rules look at, so that those are never left out.
	minExternal = 1024
)

// leftOut is the place of a constant whose contents are in the weights only.
const leftOut = -1

// errDamaged is the kind of error about a file that is no entry, or no longer one.
var errDamaged = errors.New("damaged entry")

// castagnoli is made on first use, which spares programs that keep no plans a good part of their
// start.
var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli()) }

// entry is the parts of a file.
type entry struct {
	digest             key
	key, fingerprint   key
	sums, digests      []byte // four bytes a chunk, and sha256.Size
	text               []byte
	constants, weights []byte
}

// sections are the places of an entry's parts.
type sections struct{ constantsAt, weightsAt, size int64 }

// layOut computes the places of parts of the given lengths; false when they are no lengths.
func layOut(table, constants, weights uint64) (s sections, ok bool) {
	const most = math.MaxInt64 / 8
	if table > most || constants > most || weights > most {
		return s, false
	}
	s.constantsAt = alignUp(int64(headBytes)+int64(table), sectionAlignFor(constants))
	s.weightsAt = alignUp(s.constantsAt+int64(constants), sectionAlignFor(weights))
	s.size = s.weightsAt + int64(weights)
	return s, true
}

// sectionAlignFor is the alignment of a section of so many bytes.
func sectionAlignFor(bytes uint64) int64 {
	if bytes < hugePage {
		return sectionAlign
	}
	return hugePage
}

func alignUp(n, to int64) int64 { return (n + to - 1) / to * to }

// chunks is the number of chunks of a section.
func chunks(n int) int { return (n + chunkBytes - 1) / chunkBytes }

// parse finds the parts of an entry and checks head and table. The parts are views of data.
func parse(data []byte) (*entry, error) {
	if len(data) < headBytes || !bytes.HasPrefix(data, []byte(magic)) {
		return nil, fmt.Errorf("%w: it does not begin as one", errDamaged)
	}
	head := data[digestEnd:headBytes]
	if v := binary.LittleEndian.Uint32(head); v != formatVersion {
		return nil, fmt.Errorf("%w: version %d, want %d", errDamaged, v, formatVersion)
	}
	number := func(i int) uint64 { return binary.LittleEndian.Uint64(head[4+8*i:]) }
	table, constants, weights := number(0), number(1), number(2)
	at, ok := layOut(table, constants, weights)
	if !ok || at.size != int64(len(data)) {
		return nil, fmt.Errorf(
			"%w: %d bytes do not hold a table of %d, constants of %d and weights of %d", errDamaged,
			len(data), table,
			constants, weights)
	}
	end := headBytes + int(table)
	digest := key(sha256.Sum256(data[digestEnd:end]))
	if digest != key(data[len(magic):digestEnd]) {
		return nil, fmt.Errorf("%w: the SHA-256 of its table is wrong", errDamaged)
	}
	e := &entry{digest: digest, constants: data[at.constantsAt:][:constants:constants],
		weights: data[at.weightsAt:][:weights:weights]}
	return e, e.readTable(data[headBytes:end])
}

// readTable takes a table, whose SHA-256 is right, apart.
func (e *entry) readTable(rest []byte) error {
	n := chunks(len(e.constants)) + chunks(len(e.weights))
	if len(rest) < len(e.key)+len(e.fingerprint)+n*(4+sha256.Size) {
		return fmt.Errorf("%w: its table has %d bytes", errDamaged, len(rest))
	}
	rest = rest[copy(e.key[:], rest):]
	rest = rest[copy(e.fingerprint[:], rest):]
	e.sums, rest = rest[:4*n], rest[4*n:]
	e.digests, e.text = rest[:sha256.Size*n], rest[sha256.Size*n:]
	return nil
}

// tableBytes is the length of the table.
func (e *entry) tableBytes() int {
	return len(e.key) + len(e.fingerprint) + len(e.sums) + len(e.digests) + len(e.text)
}

// head is the beginning of a file: the head, for constants and weights of the given lengths, and
// the table. It sets the digest.
func (e *entry) head(constants, weights int) []byte {
	out := append([]byte(magic), make([]byte, sha256.Size)...)
	out = binary.LittleEndian.AppendUint32(out, formatVersion)
	for _, n := range []int{e.tableBytes(), constants, weights} {
		out = binary.LittleEndian.AppendUint64(out, uint64(n))
	}
	out = slices.Concat(out, e.key[:], e.fingerprint[:], e.sums, e.digests, e.text)
	e.digest = sha256.Sum256(out[digestEnd:])
	copy(out[len(magic):], e.digest[:])
	return out
}

// chunkOf is chunk i of a section.
func chunkOf(section []byte, i int) []byte {
	return section[i*chunkBytes : min((i+1)*chunkBytes, len(section))]
}

// check compares constants and weights with their SHA-256, or, where known says that the file is
// known to have had the right SHA-256, with their CRC-32C. When checked is not nil, it is called
// with each chunk of constants that was compared.
type check struct {
	*entry
	known   bool
	checked func(chunk []byte)

	next    atomic.Int64
	bad     atomic.Pointer[error]
	helpers sync.WaitGroup
}

// begin has so many goroutines compare, while the caller does something else until end. The one
// begun last is the caller's own scheduler processor's to run next, and others take it only later
// (runqput and runqgrab of Go's runtime): it is one that does nothing.
func (c *check) begin(helpers int) {
	for range min(helpers, len(c.sums)/4) {
		c.helpers.Go(c.compare)
	}
	c.helpers.Go(func() {})
}

// end compares what is left, since a core that waits is woken late, and returns the first error.
func (c *check) end() error {
	c.compare()
	c.helpers.Wait()
	if err := c.bad.Load(); err != nil {
		return fmt.Errorf("%w: %w", errDamaged, *err)
	}
	return nil
}

// compare compares one chunk after another that nobody has compared.
func (c *check) compare() {
	nc, n := chunks(len(c.constants)), len(c.sums)/4
	for i := int(c.next.Add(1)) - 1; i < n && c.bad.Load() == nil; i = int(c.next.Add(1)) - 1 {
		chunk := c.chunk(i, nc)
		err := fault.Do(func() error { return c.sound(i, chunk, c.known) })
		if err != nil {
			c.bad.CompareAndSwap(nil, &err)
		}
		if i < nc && c.checked != nil {
			c.checked(chunk)
		}
	}
}

// sound compares a chunk with its CRC-32C or its SHA-256.
func (e *entry) sound(i int, chunk []byte, known bool) error {
	if known {
		if checksum(chunk) != binary.LittleEndian.Uint32(e.sums[4*i:]) {
			return fmt.Errorf("the CRC-32C of chunk %d is wrong", i)
		}
		return nil
	}
	sum := sha256.Sum256(chunk)
	if !bytes.Equal(sum[:], e.digests[sha256.Size*i:][:sha256.Size]) {
		return fmt.Errorf("the SHA-256 of chunk %d is wrong", i)
	}
	return nil
}

// chunk is chunk i of both sections, nc of which are constants.
func (e *entry) chunk(i, nc int) []byte {
	if i < nc {
		return chunkOf(e.constants, i)
	}
	return chunkOf(e.weights, i-nc)
}

// fetch returns the constant at a place, a view of the file.
func (e *entry) fetch(d tensor.DType, shape []int, at int64) (*tensor.Tensor, error) {
	n, err := tensor.ByteCount(d, shape)
	switch {
	case err != nil:
		return nil, err
	case d.IsContainer() || d == tensor.String || n < minExternal:
		return nil, fmt.Errorf("%w: %v%v is not kept outside the text", errDamaged, d, shape)
	}
	t := &tensor.Tensor{DType: d, Shape: append([]int{}, shape...)}
	if at == leftOut {
		return t, nil
	}
	if at < 0 || at%device.Alignment != 0 || at > int64(len(e.constants)) ||
		int64(n) > int64(len(e.constants))-at {
		return nil, fmt.Errorf("%w: %d bytes at %d of %d", errDamaged, n, at, len(e.constants))
	}
	t.Data = e.constants[at:][:n:n]
	return t, nil
}

// restore makes the plan of an entry whose parts have been verified. Contents that are sound by
// their checksums and yet not this program's must not bring it down: a panic is damage.
func (e *entry) restore(ctx context.Context, o plan.Options) (*plan.Plan, error) {
	p, err := fault.Value(func() (*plan.Plan, error) { return e.remake(ctx, o) })
	if errors.Is(err, fault.ErrPanic) {
		err = fmt.Errorf("%w: %w", errDamaged, err)
	}
	return p, err
}

// remake is restore that may panic.
func (e *entry) remake(ctx context.Context, o plan.Options) (*plan.Plan, error) {
	views := map[int64]*tensor.Tensor{}
	g, err := graph.ParseExternal(string(e.text),
		func(d tensor.DType, shape []int, at int64) (*tensor.Tensor, error) {
			t, err := e.fetch(d, shape, at)
			if err != nil || at == leftOut {
				return t, err
			}
			if seen := views[at]; seen != nil && seen.DType == d &&
				slices.Equal(seen.Shape, shape) {
				return seen, nil // one constant under several names
			}
			views[at] = t
			return t, nil
		})
	if err != nil {
		return nil, err
	}
	p, err := plan.Restore(ctx, g, o)
	if err != nil {
		return nil, err
	}
	if key(p.Fingerprint()) != e.fingerprint || p.PackedBytes != int64(len(e.weights)) {
		return nil, fmt.Errorf("%w: the plan made of it is another one", errDamaged)
	}
	return p, nil
}
