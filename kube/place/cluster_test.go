package place

import (
	"errors"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const gib = 1 << 30

// testNodes makes nodes of several models, sizes, memories and topologies.
func testNodes(rng *rand.Rand, count int) []Node {
	nodes := make([]Node, count)
	for i := range nodes {
		n := Node{Name: fmt.Sprint("n", i), Model: []string{"A", "B", ""}[rng.Intn(3)],
			CPU: int64(8+rng.Intn(4)*32) * 1000, Memory: int64(64+rng.Intn(4)*128) * gib}
		for d := range []int{0, 1, 2, 4, 8}[rng.Intn(5)] {
			n.Devices = append(n.Devices, Device{Memory: int64(rng.Intn(2)*40+40) * gib,
				NUMA: d / 4, Link: d / 2})
		}
		nodes[i] = n
	}
	return nodes
}

// testRequest makes a request, of few shapes so that they come again.
func testRequest(rng *rand.Rand) Request {
	r := Request{CPU: int64(rng.Intn(4)) * 4000, Memory: int64(rng.Intn(3)) * 8 * gib}
	switch rng.Intn(6) {
	case 0:
		return r
	case 1:
		r.Count, r.Units = 1<<rng.Intn(4), Whole
		r.Topology = Topology(rng.Intn(4))
	case 2:
		r.Count, r.Units = 2, 300
	default:
		r.Count, r.Units = 1, []int{50, 190, 333, 470, 500, 810, Whole}[rng.Intn(7)]
	}
	r.DeviceMemory = []int64{0, 0, 10 * gib, 60 * gib}[rng.Intn(4)]
	r.Models = []string{"", "", "A", "A|B"}[rng.Intn(4)]
	return r
}

func testWorkload(rng *rand.Rand) Workload {
	var some []Request
	for range 200 {
		some = append(some, testRequest(rng))
	}
	return Observe(some)
}

// history drives clusters through the same random operations and calls back after each.
type history struct {
	rng      *rand.Rand
	clusters []*Cluster
	live     []ID
	down     []int
	t        *testing.T
}

func (h *history) step() {
	c := h.clusters[0]
	switch k := h.rng.Intn(20); {
	case k < 12:
		h.place(testRequest(h.rng))
	case k < 18 && len(h.live) > 0:
		i := h.rng.Intn(len(h.live))
		for _, c := range h.clusters {
			if err := c.Release(h.live[i]); err != nil {
				h.t.Fatal(err)
			}
		}
		h.live = slices.Delete(h.live, i, i+1)
	case k == 18:
		h.lose(h.rng.Intn(len(c.nodes)))
	case len(h.down) > 0:
		for _, c := range h.clusters {
			if err := c.Return(h.down[0]); err != nil {
				h.t.Fatal(err)
			}
		}
		h.down = h.down[1:]
	}
}

func (h *history) place(r Request) {
	var first Placement
	for i, c := range h.clusters {
		p, err := c.Place(r)
		if err != nil && !errors.Is(err, ErrNoRoom) {
			h.t.Fatalf("%+v: %v", r, err)
		}
		if i == 0 {
			first = p
		} else if p != first {
			h.t.Fatalf("%s: %+v: fast %+v, plain %+v", c.policy.Name, r, first, p)
		}
	}
	if first.ID != 0 {
		h.live = append(h.live, first.ID)
	}
}

func (h *history) lose(node int) {
	var first []ID
	for i, c := range h.clusters {
		lost, err := c.Lose(node)
		if (err != nil) != slices.Contains(h.down, node) {
			h.t.Fatalf("node %d: %v", node, err)
		}
		if err != nil {
			return
		}
		if i > 0 && !slices.Equal(first, lost) {
			h.t.Fatalf("lost %v and %v", first, lost)
		}
		first = lost
	}
	h.down = append(h.down, node)
	h.live = slices.DeleteFunc(h.live, func(id ID) bool { return slices.Contains(first, id) })
}

func newHistory(t *testing.T, seed int64, p Policy, nodes int, plain bool) *history {
	h := &history{rng: rand.New(rand.NewSource(seed)), t: t}
	all, w := testNodes(h.rng, nodes), testWorkload(h.rng)
	for i := range 1 + map[bool]int{true: 1}[plain] {
		c, err := NewCluster(all, Options{Policy: p, Workload: w, Plain: i == 1,
			Rand: rand.New(rand.NewSource(seed))})
		if err != nil {
			t.Fatal(err)
		}
		h.clusters = append(h.clusters, c)
	}
	return h
}

func TestFastChoosesAsPlain(t *testing.T) {
	for _, p := range Policies() {
		for seed := range int64(6) {
			h := newHistory(t, seed, p, 1+int(seed)*9, true)
			h.clusters[0].index.most = 8 + int(seed)
			for i := range 500 {
				h.step()
				if i == 250 {
					h.clusters[0].frags.memo.count = maxClasses + 1
				}
			}
			if f, p := h.clusters[0].Fragmented(), h.clusters[1].Fragmented(); f != p {
				t.Errorf("%s: fragmented %v, plainly %v", h.clusters[0].policy.Name, f, p)
			}
		}
	}
}

func FuzzFastChoosesAsPlain(f *testing.F) {
	f.Add(int64(1), 3, 5)
	f.Fuzz(func(t *testing.T, seed int64, nodes, policy int) {
		all := Policies()
		p := all[int(uint(policy)%uint(len(all)))]
		h := newHistory(t, seed, p, 1+int(uint(nodes)%40), true)
		h.clusters[0].index.most = 4
		for range 120 {
			h.step()
		}
	})
}

// account holds what is placed on each node against what the node has, from placements alone.
func account(t *testing.T, c *Cluster, spec []Node) {
	t.Helper()
	type sum struct{ units, mem int64 }
	cpu, mem := make([]int64, len(spec)), make([]int64, len(spec))
	devices := map[[2]int]sum{}
	var used int64
	for _, p := range c.byID {
		cpu[p.node] += p.CPU
		mem[p.node] += p.Memory
		used += p.TotalUnits()
		if p.set.Len() != p.Count || !p.Takes(spec[p.node].Model) && p.Count > 0 {
			t.Fatalf("%+v has devices %v of node %+v", p.Request, p.set.Indices(), spec[p.node])
		}
		for _, d := range p.set.Indices() {
			s := devices[[2]int{int(p.node), d}]
			devices[[2]int{int(p.node), d}] = sum{s.units + int64(p.Units), s.mem + p.DeviceMemory}
		}
	}
	for i := range spec {
		n := c.nodes[i]
		if cpu[i] > spec[i].CPU || mem[i] > spec[i].Memory || n.cpu != spec[i].CPU-cpu[i] ||
			n.mem != spec[i].Memory-mem[i] {
			t.Fatalf("node %d: %d CPU and %d bytes are taken of %+v", i, cpu[i], mem[i], spec[i])
		}
		for d, device := range spec[i].Devices {
			s := devices[[2]int{i, d}]
			if s.units > Whole || s.mem > device.Memory || int64(n.free[d].units) != Whole-s.units {
				t.Fatalf("node %d: of device %d %+v are taken", i, d, s)
			}
		}
	}
	if _, u := c.Units(); u != used {
		t.Fatalf("%d units are counted as taken: %d are", u, used)
	}
}

func TestNothingIsGivenTwice(t *testing.T) {
	for i, p := range Policies() {
		h := newHistory(t, int64(100+i), p, 25, false)
		c := h.clusters[0]
		spec := testNodes(rand.New(rand.NewSource(int64(100+i))), 25)
		for range 1500 {
			h.step()
			account(t, c, spec)
		}
		for len(h.live) > 0 {
			if err := c.Release(h.live[0]); err != nil {
				t.Fatal(err)
			}
			h.live = h.live[1:]
		}
		for _, n := range c.nodes {
			fresh := newNode(n.spec, n.model)
			if !slices.Equal(n.free, fresh.free) || n.idle != fresh.idle || n.pods != fresh.pods ||
				n.mixed != 0 || n.units != fresh.units {
				t.Fatalf("%s: an empty node has %+v, not %+v", p.Name, n, fresh)
			}
		}
	}
}

func cluster(t *testing.T, policy string, nodes ...Node) *Cluster {
	t.Helper()
	p, ok := Named(policy)
	if !ok {
		t.Fatalf("no policy %s", policy)
	}
	c, err := NewCluster(nodes, Options{Policy: p, Rand: rand.New(rand.NewSource(1)),
		Workload: Workload{{Request{CPU: 1000, Count: 1, Units: 500}, 1}}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func box(name string, devices int) Node {
	n := Node{Name: name, Model: "A", CPU: 16000, Memory: 64 * gib}
	for d := range devices {
		n.Devices = append(n.Devices, Device{Memory: 16 * gib, NUMA: d / 4, Link: d / 2})
	}
	return n
}

func TestBindRefusesWhatIsTaken(t *testing.T) {
	c := cluster(t, "fgd", box("a", 2))
	r := Request{Count: 1, Units: 600, DeviceMemory: 8 * gib}
	p, err := c.Bind(r, 0, 1<<1)
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range []Set{1 << 1, 1 << 5, 3, 0} {
		if _, err := c.Bind(r, 0, set); !errors.Is(err, ErrNoRoom) {
			t.Errorf("devices %v: %v", set.Indices(), err)
		}
	}
	for _, more := range []Request{{CPU: 16001}, {Memory: 64*gib + 1}} {
		if _, err := c.Bind(more, 0, 0); !errors.Is(err, ErrNoRoom) {
			t.Errorf("%+v: %v", more, err)
		}
	}
	if _, err := c.Bind(r, 1, 1); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	if err := c.Release(p.ID); err != nil {
		t.Fatal(err)
	}
	if err := c.Release(p.ID); !errors.Is(err, ErrUnknown) {
		t.Errorf("given back twice: %v", err)
	}
}

func TestGangIsAllOrNothing(t *testing.T) {
	c := cluster(t, "prices", box("a", 4), box("b", 4))
	whole := Request{CPU: 1000, Count: 2, Units: Whole}
	if _, err := c.Gang(slices.Repeat([]Request{whole}, 5)); !errors.Is(err, ErrNoRoom) ||
		!strings.Contains(err.Error(), "member 4 of a gang of 5") {
		t.Fatal(err)
	}
	if _, used := c.Units(); used != 0 {
		t.Errorf("%d units are taken by a gang that did not fit", used)
	}
	all, err := c.Gang(slices.Repeat([]Request{whole}, 4))
	if err != nil || len(all) != 4 {
		t.Fatal(all, err)
	}
	if units, used := c.Units(); used != units {
		t.Errorf("%d of %d", used, units)
	}
}

func TestTopologyOfDevices(t *testing.T) {
	split := box("a", 8) // NUMA nodes of 4, links of 2
	for _, test := range []struct {
		topology Topology
		taken    Set
		count    int
		want     Set
	}{
		{Anywhere, 1 << 0, 4, 0b11110},
		{BestEffort, 1 << 0, 4, 0b11110000},
		{BestEffort, 1<<0 | 1<<4, 4, 0b1101100},
		{BestEffort, 1 << 0, 2, 0b1100},
		{BestEffort, 1<<0 | 1<<2, 2, 0b110000},
		{Restricted, 1<<0 | 1<<4, 4, 0},
		{Restricted, 1 << 0, 5, 0b111110},
		{Restricted, 1 << 0, 4, 0b11110000},
		{SingleNUMA, 1 << 0, 5, 0},
		{SingleNUMA, 1 << 4, 4, 0b1111},
		{SingleNUMA, 0, 3, 0b111},
	} {
		c := cluster(t, "bestfit", split)
		for _, d := range test.taken.Indices() {
			if _, err := c.Bind(Request{Count: 1, Units: Whole}, 0, 1<<d); err != nil {
				t.Fatal(err)
			}
		}
		p, err := c.Place(Request{Count: test.count, Units: Whole, Topology: test.topology})
		if test.topology == Restricted && test.count == 5 {
			// five of eight devices are on one NUMA node of no machine: any five will do
			if err != nil || p.Devices.Len() != 5 {
				t.Errorf("%+v: %v, %v", test, p.Devices.Indices(), err)
			}
			continue
		}
		if (err != nil) != (test.want == 0) || p.Devices.Len() != test.want.Len() {
			t.Errorf("%+v: %b, %v", test, p.Devices, err)
		} else if p.Devices != test.want && test.want != 0b1101100 {
			t.Errorf("%+v: %b", test, p.Devices)
		}
	}
}

func TestNodeLossFreesAndReturnIsEmpty(t *testing.T) {
	c := cluster(t, "fgd", box("a", 1))
	p, err := c.Place(Request{Count: 1, Units: 700})
	if err != nil {
		t.Fatal(err)
	}
	lost, err := c.Lose(0)
	if err != nil || !slices.Equal(lost, []ID{p.ID}) {
		t.Fatal(lost, err)
	}
	if _, err := c.Place(Request{Count: 1, Units: 1}); !errors.Is(err, ErrNoRoom) {
		t.Errorf("placed on a node that is lost: %v", err)
	}
	if err := c.Release(p.ID); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	if err := c.Return(0); err != nil {
		t.Fatal(err)
	}
	if err := c.Return(0); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	if _, err := c.Place(Request{Count: 1, Units: Whole}); err != nil {
		t.Error(err)
	}
}

func TestWhySaysWhatWouldFit(t *testing.T) {
	other := box("c", 1)
	other.Model = "B"
	c := cluster(t, "fgd", box("a", 1), box("b", 1), other, box("d", 0), box("e", 1))
	for i, units := range map[int]int{0: 800, 1: 600} {
		if _, err := c.Bind(Request{Count: 1, Units: units}, i, 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Lose(4); err != nil {
		t.Fatal(err)
	}
	_, err := c.Place(Request{Count: 1, Units: 500, Models: "A"})
	const want = "no room: of 5 nodes 1 are down, 2 have devices of another model or none, " +
		"2 are short of free devices; on those 400 units of one device are the most that would fit"
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
	for r, want := range map[Request]string{
		{CPU: 17000}:                 "4 are too small",
		{Memory: 65 * gib}:           "4 are too small",
		{Count: 1, Units: 100}:       "all 5 nodes fit",
		{Count: 2, Units: Whole}:     "3 are too small",
		{Count: 1, Units: 1, CPU: 1}: "of 5 nodes 1 are down",
	} {
		if got := c.Why(r); !strings.Contains(got, want) && want != "all 5 nodes fit" {
			t.Errorf("%+v: %s, want %s", r, got, want)
		}
	}
}

func TestErrorsNameWhatIsWrong(t *testing.T) {
	for _, r := range []Request{
		{CPU: -1}, {Memory: -1}, {Count: -1}, {Count: 65, Units: 1}, {Count: 1}, {Units: 1},
		{Count: 1, Units: 1001}, {Count: 1, Units: 1, DeviceMemory: -1}, {DeviceMemory: 1},
		{Count: 1, Units: 1, Topology: 4},
	} {
		c := cluster(t, "fgd", box("a", 1))
		if _, err := c.Place(r); err == nil || errors.Is(err, ErrNoRoom) {
			t.Errorf("placed %+v: %v", r, err)
		}
	}
	p, _ := Named("fgd")
	one := []Node{box("a", 1)}
	weight := func(w int64) Workload { return Workload{{Request{Count: 1, Units: 1}, w}} }
	for _, test := range []struct {
		nodes []Node
		o     Options
		want  string
	}{
		{one, Options{}, "without a policy"},
		{one, Options{Policy: random}, "random numbers"},
		{[]Node{box("a", 1), box("a", 2)}, Options{Policy: p}, `two nodes are named "a"`},
		{[]Node{box("a", 65)}, Options{Policy: p}, "65 devices"},
		{[]Node{{CPU: -1}}, Options{Policy: p}, "negative"},
		{[]Node{{Devices: []Device{{Memory: -1}}}}, Options{Policy: p}, "device 0"},
		{one, Options{Policy: p, Workload: weight(0)}, "the weight 0"},
		{one, Options{Policy: p, Workload: weight(1<<40 + 1)}, "the weight"},
		{one, Options{Policy: p, Workload: append(weight(1<<40), weight(1)...)}, "sum up"},
		{one, Options{Policy: p, Workload: Workload{{Request{Count: 1}, 1}}}, "0 units"},
	} {
		if _, err := NewCluster(test.nodes, test.o); err == nil ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}

func TestPricesAreOfTheBestCut(t *testing.T) {
	for _, test := range []struct {
		asked map[int]float64
		want  []float64 // largest size first
	}{
		{map[int]float64{50: 1}, []float64{0.5}},
		{map[int]float64{100: 3, 50: 1}, []float64{1, 0.5}},
		{map[int]float64{81: 10, 19: 1}, []float64{1, 0}}, // what is left of the large is enough
		{map[int]float64{81: 1, 19: 10}, []float64{0.8, 0.2}},
		{map[int]float64{60: 1, 40: 1}, []float64{0.5, 0.5}},
	} {
		items := itemsOf(test.asked)
		got := cut(items)
		worth, parts := 0.0, 0.0
		for i := range items {
			worth += got[i] * items[i].part
			parts += test.want[i] * items[i].part
		}
		if d := worth - parts; d > 1e-9 || d < -1e-9 {
			t.Errorf("%v: prices %v cost %v, want %v as %v do", test.asked, got, worth, parts,
				test.want)
		}
		p := packer{items: items, prices: got}
		p.fill()
		if w := p.worth[len(p.worth)-1]; w > 1+1e-6 {
			t.Errorf("%v: a device is worth %v by prices %v", test.asked, w, got)
		}
	}
}

func TestFragmentationOfTheDefinition(t *testing.T) {
	n := box("a", 3)
	c := cluster(t, "fgd", n)
	// Of 3000 units with 500 wanted, 800 and 300 left on two devices: the 300 are a fragment.
	for d, units := range []int{200, 700} {
		if _, err := c.Bind(Request{Count: 1, Units: units}, 0, 1<<d); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.Fragmented(); got != 300 {
		t.Errorf("%v units are fragments, want 300", got)
	}
	if _, err := c.Place(Request{CPU: 15001}); err != nil {
		t.Fatal(err)
	}
	if got := c.Fragmented(); got != 2100 {
		t.Errorf("without CPU %v units are fragments, want all 2100", got)
	}
}

func TestObserveKeepsWhatIsFrequent(t *testing.T) {
	var all []Request
	for range 95 {
		all = append(all, Request{Count: 1, Units: 500})
	}
	for i := range 5 {
		all = append(all, Request{CPU: int64(i), Count: 1, Units: 100})
	}
	w := Observe(all)
	if want := (Workload{{Request{Count: 1, Units: 500}, 95}}); !reflect.DeepEqual(w, want) {
		t.Errorf("%+v", w)
	}
	w = Observe(all[90:])
	if len(w) != 6 || w[0].Weight != 5 || w[1].CPU != 4 {
		t.Errorf("%+v", w)
	}
}

func TestSetsListTheirDevices(t *testing.T) {
	if got := Set(0b10110).Indices(); !slices.Equal(got, []int{1, 2, 4}) {
		t.Error(got)
	}
}
