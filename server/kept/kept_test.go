package kept

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// key names a request of one text.
func key(s string) Key {
	n := NewNamer()
	n.Text(s)
	return n.Key()
}

// floats is an answer of so many numbers.
func floats(n int) []*tensor.Tensor { return []*tensor.Tensor{tensor.From(make([]float32, n), n)} }

// TestKeys: each part of a request makes another key, and parts cannot be mistaken for each other.
func TestKeys(t *testing.T) {
	seen := map[Key]int{}
	for i, add := range []func(n *Namer){
		func(*Namer) {},
		func(n *Namer) { n.Text("ab") },
		func(n *Namer) { n.Text("a"); n.Text("b") },
		func(n *Namer) { n.Text("b"); n.Text("a") },
		func(n *Namer) { n.Number(1) },
		func(n *Namer) { n.Tensor(tensor.From([]float32{0, 1}, 2)) },
		func(n *Namer) { n.Tensor(tensor.From([]float32{0, 1}, 1, 2)) },
		func(n *Namer) { n.Tensor(tensor.From([]int32{0, 1}, 2)) },
		func(n *Namer) { n.Tensor(tensor.From([]float32{0, 1.0000001}, 2)) },
		func(n *Namer) { n.Tensor(tensor.FromStrings([]string{"a", "b"}, 2)) },
		func(n *Namer) { n.Tensor(tensor.FromStrings([]string{"", "ab"}, 2)) },
	} {
		n := NewNamer()
		add(n)
		if before, same := seen[n.Key()]; same {
			t.Errorf("requests %d and %d have one key", before, i)
		}
		seen[n.Key()] = i
	}
	a, b := NewNamer(), NewNamer()
	a.Tensor(tensor.From([]float32{0, 1}, 2))
	b.Tensor(tensor.From([]float32{0, 1}, 2))
	if a.Key() != b.Key() {
		t.Error("equal requests have two keys")
	}
}

// TestBound: the cache holds no more than its bytes, drops what was asked for longest ago, and
// keeps copies.
func TestBound(t *testing.T) {
	c := New(4 * (overhead + overhead/2 + 4000))
	for _, name := range []string{"a", "b", "c", "d"} {
		c.Put(key(name), 1, floats(1000))
	}
	if n, _ := c.Size(); n != 4 {
		t.Fatalf("%d answers", n)
	}
	c.Get(key("a"))
	out := floats(1000)
	c.Put(key("e"), 2, out)
	out[0].Data[0] = 7
	for name, want := range map[string]bool{"a": true, "b": false, "c": true, "e": true} {
		if got := c.Get(key(name)); (got != nil) != want {
			t.Errorf("%s is kept: %v", name, got != nil)
		}
	}
	if c.Get(key("e"))[0].Data[0] != 0 {
		t.Error("the answer is not a copy")
	}
	c.Put(key("f"), 2, floats(1<<20)) // larger than all
	if c.Get(key("f")) != nil {
		t.Error("an answer beyond the bound is kept")
	}
	c.Put(key("e"), 2, floats(10)) // again, smaller
	c.Forget(2)
	if n, bytes := c.Size(); n != 3 || bytes != 3*(overhead+overhead/2+4000) {
		t.Errorf("%d answers of %d bytes", n, bytes)
	}
	c.Forget(1)
	if n, bytes := c.Size(); n != 0 || bytes != 0 {
		t.Errorf("%d answers of %d bytes are left", n, bytes)
	}
	var none *Cache
	none.Put(key("a"), 1, floats(1))
	none.Forget(1)
	if n, _ := none.Size(); none.Get(key("a")) != nil || n != 0 || New(0) != nil {
		t.Error("the nil cache keeps something")
	}
}

// TestAtOnce: the bound holds while many ask, put and forget at once.
func TestAtOnce(t *testing.T) {
	const limit = 50_000
	c := New(limit)
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			for range 2000 {
				name := names[rng.IntN(len(names))]
				n := slices.Index(names, name) + 1
				switch rng.IntN(8) {
				case 0:
					c.Put(key(name), uint64(n), floats(n*500))
				case 1:
					c.Forget(uint64(n))
				default:
					if got := c.Get(key(name)); got != nil && got[0].Len() != n*500 {
						t.Errorf("%s has an answer of %d", name, got[0].Len())
					}
				}
				if _, bytes := c.Size(); bytes < 0 || bytes > limit {
					t.Errorf("%d bytes of %d", bytes, limit)
				}
			}
		})
	}
	wg.Wait()
	for i := range names {
		c.Forget(uint64(i + 1))
	}
	if n, bytes := c.Size(); n != 0 || bytes != 0 {
		t.Errorf("%d answers, %d bytes are left", n, bytes)
	}
}
