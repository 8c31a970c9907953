package live

import (
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/kube/place"
)

func policy(t testing.TB, name string) place.Policy {
	t.Helper()
	p, ok := place.Named(name)
	if !ok {
		t.Fatal(name)
	}
	return p
}

func cluster(t testing.TB, nodes ...Node) *Cluster {
	t.Helper()
	c, err := New(Options{Policy: policy(t, "prices"), Workload: place.Workload{
		{Request: share(300), Weight: 3}, {Request: share(500), Weight: 2},
		{Request: whole(1), Weight: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if err := c.SetNode(n); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// node has devices of 80 GiB, four to a NUMA node.
func node(name string, devices int) Node {
	n := Node{Node: place.Node{Name: name, CPU: 64000, Memory: 512 << 30}}
	for i := range devices {
		n.Devices = append(n.Devices, place.Device{Memory: 80 << 30, NUMA: i / 4, Link: -1 - i})
		n.Names = append(n.Names, fmt.Sprint("cuda-", i))
	}
	return n
}

func share(units int) place.Request {
	return place.Request{CPU: 1000, Count: 1, Units: units, DeviceMemory: 8 << 30}
}

func whole(count int) place.Request {
	return place.Request{CPU: 1000, Count: count, Units: place.Whole}
}

// held is what a request has at a choice.
func held(key string, r place.Request, c Choice) Holder {
	return Holder{Key: key, Node: c.Node, Parts: []Part{{r, c.Devices}}}
}

func (c *Cluster) mustChoose(t testing.TB, r place.Request) Choice {
	t.Helper()
	choice, err := c.Choose(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return choice
}

func TestPolicyThatDrawsIsRefused(t *testing.T) {
	if _, err := New(Options{Policy: policy(t, "random")}); err == nil {
		t.Error("random is taken")
	}
}

// What a long history has come to is what the same cluster is when it is told all at once: nothing
// is lost or counted twice by changing it step by step.
func TestHistoryLeavesNothingBehind(t *testing.T) {
	for seed := range int64(20) {
		h := newHistory(t, seed)
		for range 300 {
			h.step()
			if h.rng.Intn(10) == 0 {
				h.compare()
			}
		}
		h.compare()
	}
}

type history struct {
	t     *testing.T
	rng   *rand.Rand
	c     *Cluster
	next  int
	owned []string
}

func newHistory(t *testing.T, seed int64) *history {
	h := &history{t: t, rng: rand.New(rand.NewSource(seed)), c: cluster(t)}
	for i := range 6 {
		h.node(i)
	}
	return h
}

func (h *history) node(i int) {
	n := node(fmt.Sprint("n", i), []int{0, 1, 4, 8}[h.rng.Intn(4)])
	n.Closed = h.rng.Intn(8) == 0
	if err := h.c.SetNode(n); err != nil {
		h.t.Fatal(err)
	}
}

func (h *history) request() place.Request {
	switch h.rng.Intn(5) {
	case 0:
		return whole(1 << h.rng.Intn(3))
	case 1:
		return place.Request{CPU: 4000, Memory: 8 << 30}
	}
	return share([]int{100, 300, 500, 700}[h.rng.Intn(4)])
}

func (h *history) step() {
	h.next++
	key := fmt.Sprint("h", h.next)
	switch h.rng.Intn(12) {
	case 0:
		h.node(h.rng.Intn(6))
	case 1:
		h.c.RemoveNode(fmt.Sprint("n", h.rng.Intn(6)))
	case 2: // somebody else has placed it, perhaps where there is no room
		h.c.Hold(held(key, whole(1), Choice{fmt.Sprint("n", h.rng.Intn(7)),
			[]string{fmt.Sprint("cuda-", h.rng.Intn(9))}}))
	case 3, 4, 5, 6:
		h.drop()
	default:
		r := h.request()
		if choice, err := h.c.Choose(r, nil); err == nil {
			v := held(key, r, choice)
			v.Owner, v.Yields = key, h.rng.Intn(2) == 0
			h.c.Hold(v)
			h.owned = append(h.owned, key)
		} else if !errors.Is(err, place.ErrNoRoom) {
			h.t.Fatal(err)
		}
	}
}

func (h *history) drop() {
	keys := slices.Sorted(maps.Keys(h.c.holds))
	if len(keys) > 0 {
		h.c.Drop(keys[h.rng.Intn(len(keys))])
	}
}

// compare holds the cluster against one that is told of all that is.
func (h *history) compare() {
	h.t.Helper()
	fresh := cluster(h.t)
	for _, n := range h.c.nodes {
		if err := fresh.SetNode(*n); err != nil {
			h.t.Fatal(err)
		}
	}
	all := slices.Collect(maps.Values(h.c.holds))
	slices.SortFunc(all, func(a, b *hold) int { return int(a.seq) - int(b.seq) })
	for _, v := range all {
		fresh.Hold(v.Holder)
	}
	for range 5 {
		r := h.request()
		got, err := h.c.Rank(r, nil)
		want, err2 := fresh.Rank(r, nil)
		if err != nil || err2 != nil || !reflect.DeepEqual(got, want) {
			h.t.Fatalf("%+v: after a history %v %v, told at once %v %v", r, got, err, want, err2)
		}
		first, err := h.c.Choose(r, nil)
		if (err == nil) != (len(got) > 0) || err == nil && !reflect.DeepEqual(first, got[0]) {
			h.t.Fatalf("chosen is %v %v, ranked %v", first, err, got)
		}
	}
}

// A node that is told to have more on it than it has takes nothing new, and takes it again when it
// is not so any more.
func TestNodeWithTooMuchOnItTakesNothing(t *testing.T) {
	c := cluster(t, node("a", 2))
	c.Hold(held("1", whole(1), Choice{"a", []string{"cuda-0"}}))
	c.mustChoose(t, share(100))
	c.Hold(held("2", share(300), Choice{"a", []string{"cuda-0"}}))
	if _, err := c.Choose(share(100), nil); !errors.Is(err, place.ErrNoRoom) {
		t.Errorf("a node with a device given out twice is chosen: %v", err)
	}
	for _, closed := range []bool{true, false} {
		n := node("a", 2)
		n.Closed = closed
		if err := c.SetNode(n); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Choose(share(100), nil); !errors.Is(err, place.ErrNoRoom) {
		t.Errorf("it is chosen once it was closed and opened: %v", err)
	}
	c.Drop("1")
	if got := c.mustChoose(t, share(100)); got.Node != "a" {
		t.Errorf("then %v", got)
	}
	if _, used, _ := c.Units(); used != 300 {
		t.Errorf("%d units are used, want 300", used)
	}
}

// Who has a device that the node does not offer holds the rest of what it has.
func TestUnknownDevicesCountForNothing(t *testing.T) {
	c := cluster(t, node("a", 1))
	c.Hold(held("1", share(300), Choice{"a", []string{"cuda-7"}}))
	c.Hold(held("2", share(300), Choice{"nowhere", []string{"cuda-0"}}))
	if _, used, err := c.Units(); used != 0 || err != nil {
		t.Errorf("%d units are used: %v", used, err)
	}
	c.mustChoose(t, share(100))
	r := whole(1)
	r.CPU = 64000
	if _, err := c.Choose(r, nil); !errors.Is(err, place.ErrNoRoom) {
		t.Errorf("its CPU was given again: %v", err)
	}
}

func TestOnlyAllowedNodesAreChosen(t *testing.T) {
	c := cluster(t, node("a", 8), node("b", 8), node("c", 8))
	first := c.mustChoose(t, whole(1)).Node
	got, err := c.Choose(whole(1), func(n string) bool { return n != first })
	if err != nil || got.Node == first {
		t.Errorf("chose %v, %v", got, err)
	}
	_, err = c.Choose(whole(1), func(string) bool { return false })
	if err == nil || !strings.Contains(err.Error(), "3 are not for this request") {
		t.Errorf("none allowed: %v", err)
	}
}

func TestClosedNodeKeepsWhatItHas(t *testing.T) {
	c := cluster(t, node("a", 1))
	c.Hold(held("1", share(300), c.mustChoose(t, share(300))))
	n := node("a", 1)
	n.Closed = true
	if err := c.SetNode(n); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Choose(share(100), nil); err == nil ||
		!strings.Contains(err.Error(), "take nothing new") {
		t.Errorf("closed: %v", err)
	}
	if err := c.SetNode(node("a", 1)); err != nil {
		t.Fatal(err)
	}
	c.mustChoose(t, share(700))
	if _, err := c.Choose(share(701), nil); err == nil {
		t.Error("what was held before is given again")
	}
}

func TestGangHasAllSeatsOrNone(t *testing.T) {
	c := cluster(t, node("a", 2), node("b", 2))
	var members []Member
	for i := range 5 {
		members = append(members, Member{Key: fmt.Sprint(i), Request: whole(1)})
	}
	before := c.Freed()
	_, err := c.Gang(members)
	if !errors.Is(err, place.ErrNoRoom) || !strings.Contains(err.Error(), "member 5 of 5") ||
		!strings.Contains(err.Error(), "short of free devices") {
		t.Errorf("five of four: %v", err)
	}
	if _, used, _ := c.Units(); used != 0 || before != c.Freed() {
		t.Errorf("%d units are used by a gang that has no seats", used)
	}
	seats, err := c.Gang(members[:4])
	if err != nil || len(seats) != 4 {
		t.Fatal(seats, err)
	}
	for i, s := range seats {
		h, ok := c.Held(fmt.Sprint(i))
		if !ok || h.Node != s.Node || !reflect.DeepEqual(h.Parts[0].Devices, s.Devices) {
			t.Errorf("seat %d is %v, held %v %v", i, s, h, ok)
		}
	}
	if _, used, _ := c.Units(); used != 4000 {
		t.Errorf("%d units are used by four", used)
	}
}

// An observed workload is what requests were like, and changes as they do.
func TestWorkloadIsObserved(t *testing.T) {
	c, err := New(Options{Policy: policy(t, "fgd")})
	if err != nil {
		t.Fatal(err)
	}
	for range leastFresh {
		c.Saw(share(300))
	}
	if w := c.seen.workload(); len(w) != 1 || w[0].Units != 300 {
		t.Errorf("observed %v", w)
	}
	for range 2 * mostSeen {
		c.Saw(share(500))
	}
	if w := c.seen.workload(); len(w) != 1 || w[0].Units != 500 || len(c.seen.last) != mostSeen {
		t.Errorf("observed %v of %d", w, len(c.seen.last))
	}
}

func TestNodeThatCannotBeIsRefused(t *testing.T) {
	c := cluster(t, node("a", 2))
	n := node("a", 2)
	n.Names = n.Names[:1]
	if err := c.SetNode(n); err == nil {
		t.Error("a device without a name is taken")
	}
	n = node("a", 65)
	if err := c.SetNode(n); err == nil || !strings.Contains(err.Error(), "64") {
		t.Errorf("65 devices: %v", err)
	}
	if got := c.mustChoose(t, whole(2)); got.Node != "a" {
		t.Errorf("then %v", got)
	}
}

func TestHoldingAgainReplaces(t *testing.T) {
	c := cluster(t, node("a", 1), node("b", 1))
	c.mustChoose(t, share(100))
	c.Hold(held("1", whole(1), Choice{"a", []string{"cuda-0"}}))
	c.Hold(held("1", share(300), Choice{"b", []string{"cuda-0"}}))
	if _, used, err := c.Units(); used != 300 || err != nil {
		t.Errorf("%d units are used, want 300: %v", used, err)
	}
	if h, ok := c.Held("1"); !ok || h.Node != "b" || len(c.on) != 1 {
		t.Errorf("holds %v %v, on %d nodes", h, ok, len(c.on))
	}
}
