// Package kept keeps answers, so that a request which is equal to one before it has the same answer
// without being computed.
//
// Meet first: [Cache], and [Key], which names a request bit by bit.
//
// The answers that were asked for longest ago make room for others: all of them have no more bytes
// than the cache.
//
// Concurrency: every method may be called by any number of goroutines.
//
// What it refuses: an answer that is larger than the cache; it is not kept, which is no error.
package kept

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"

	"github.com/weirgpu/weir/tensor"
)

// Key names a request: equal keys are those of equal requests, but for a collision of SHA-256.
type Key [sha256.Size]byte

// Namer makes a [Key]: of texts and tensors, in the order in which they are added.
type Namer struct {
	h    hash.Hash
	text []byte
}

// NewNamer returns one of nothing.
func NewNamer() *Namer { return &Namer{h: sha256.New()} }

// Text adds a text.
func (n *Namer) Text(s string) {
	n.text = append(binary.AppendUvarint(n.text[:0], uint64(len(s))), s...)
	n.h.Write(n.text)
}

// Number adds a number.
func (n *Namer) Number(x uint64) {
	n.text = binary.AppendUvarint(n.text[:0], x)
	n.h.Write(n.text)
}

// Tensor adds the type, shape and elements of a tensor. Those of containers are told apart by
// nothing else.
func (n *Namer) Tensor(t *tensor.Tensor) {
	n.Number(uint64(t.DType))
	n.Number(uint64(len(t.Shape)))
	for _, d := range t.Shape {
		n.Number(uint64(d))
	}
	n.Number(uint64(len(t.Data)))
	n.h.Write(t.Data)
	n.Number(uint64(len(t.Strings)))
	for _, s := range t.Strings {
		n.Text(s)
	}
}

// Key is what was added.
func (n *Namer) Key() (k Key) {
	n.h.Sum(k[:0])
	return k
}

// Cache keeps answers. The nil Cache keeps none.
type Cache struct {
	limit int64

	mu     sync.Mutex
	bytes  int64
	answer map[Key]*list.Element // of recent
	recent *list.List            // of *entry, the last that was asked for first
}

// entry is an answer that is kept.
type entry struct {
	key   Key
	owner uint64
	out   []*tensor.Tensor
	bytes int64
}

// New returns a cache of so many bytes, nil for none.
func New(bytes int64) *Cache {
	if bytes <= 0 {
		return nil
	}
	return &Cache{limit: bytes, answer: map[Key]*list.Element{}, recent: list.New()}
}

// Get returns the answer to a request, nil where none is kept. It must not be written.
func (c *Cache) Get(k Key) []*tensor.Tensor {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.answer[k]
	if e == nil {
		return nil
	}
	c.recent.MoveToFront(e)
	return e.Value.(*entry).out
}

// overhead is about what an entry, a tensor and a string take beside their elements.
const overhead = 256

// Put keeps a copy of an answer of an owner, which [Cache.Forget] knows it by, if it has room.
func (c *Cache) Put(k Key, owner uint64, out []*tensor.Tensor) {
	if c == nil {
		return
	}
	size := int64(overhead)
	for _, t := range out {
		size += t.Size() + overhead/2 + int64(len(t.Strings))*16
	}
	if size > c.limit {
		return
	}
	e := &entry{key: k, owner: owner, bytes: size}
	for _, t := range out {
		e.out = append(e.out, t.Clone())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.answer[k]; old != nil {
		c.drop(old)
	}
	for c.bytes+size > c.limit {
		c.drop(c.recent.Back())
	}
	c.answer[k] = c.recent.PushFront(e)
	c.bytes += size
}

// drop removes an entry; c.mu is held.
func (c *Cache) drop(e *list.Element) {
	old := c.recent.Remove(e).(*entry)
	delete(c.answer, old.key)
	c.bytes -= old.bytes
}

// Forget removes the answers of an owner.
func (c *Cache) Forget(owner uint64) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.recent.Front(); e != nil; {
		next := e.Next()
		if e.Value.(*entry).owner == owner {
			c.drop(e)
		}
		e = next
	}
}

// Size returns how many answers are kept, and their bytes.
func (c *Cache) Size() (answers int, bytes int64) {
	if c == nil {
		return 0, 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recent.Len(), c.bytes
}
