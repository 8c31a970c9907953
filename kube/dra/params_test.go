package dra

import (
	"strings"
	"testing"

	"github.com/weirgpu/weir/share"
)

// said is parameters as a user writes them.
func said(fields string) []byte {
	return []byte(`{"apiVersion":"gpu.weir.dev/v1alpha1","kind":"ShareParameters"` + fields + `}`)
}

func TestParseMilli(t *testing.T) {
	for in, want := range map[string]int{"300m": 300, "0.3": 300, "1": 1000, "0.001": 1, "0": 0,
		"1.25": 1250, "0m": 0, "1000000": 1e9} {
		if got, err := ParseMilli(in); err != nil || got != want {
			t.Errorf("%q is %d, %v: want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "m", "-1", "0.0001", ".5", "1.", "1e3", "300u", "+1",
		"1000001", "99999999999999999999", "1 ", "0x10"} {
		if got, err := ParseMilli(in); err == nil {
			t.Errorf("%q was read as %d", in, got)
		}
	}
}

// TestParametersGoOnTopOfEachOther has a claim say one thing and its class another.
func TestParametersGoOnTopOfEachOther(t *testing.T) {
	p, err := ParseParameters(Parameters{}, said(`,"class":"latency","limit":"800m"`))
	if err != nil {
		t.Fatal(err)
	}
	if p, err = ParseParameters(p, said(`,"limit":0.5,"qos":"Burstable"`)); err != nil {
		t.Fatal(err)
	}
	if p.Class != share.Latency || p.Limit != 500 || p.QoS != Burstable {
		t.Errorf("%+v", p)
	}
}

func TestWrongParametersAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		string(said(`,"clas":"latency"`)):        "clas",
		string(said(`,"class":"urgent"`)):        "class",
		string(said(`,"limit":"0"`)):             "limit 0",
		string(said(`,"limit":"1001m"`)):         "limit 1001m",
		string(said(`,"limit":true`)):            "limit true",
		string(said(`,"qos":"guaranteed"`)):      "Guaranteed",
		`{"apiVersion":"v1","kind":"Pod"}`:       "kind ShareParameters",
		string(said("")) + string(said("")):      "more than one",
		`[]`:                                     "parameters",
		`{"kind":"ShareParameters"}`:             "apiVersion gpu.weir.dev/v1alpha1",
		`{"apiVersion":"gpu.weir.dev/v1alpha1"}`: "kind",
	} {
		if _, err := ParseParameters(Parameters{}, []byte(text)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v: want %q", text, err, want)
		}
	}
}

// TestShareOfAClaim holds what each kind of service makes of capacities.
func TestShareOfAClaim(t *testing.T) {
	for name, c := range map[string]struct {
		p       Parameters
		compute int
		want    share.Share
	}{
		"plain": {Parameters{}, 300, share.Share{Compute: 0.3}},
		"burst": {Parameters{QoS: Burstable, Limit: 600}, 300,
			share.Share{Compute: 0.3, Limit: 0.6}},
		"guaranteed": {Parameters{QoS: Guaranteed}, 300, share.Share{Compute: 0.3, Limit: 0.3}},
		"same limit": {Parameters{QoS: Guaranteed, Limit: 300}, 300,
			share.Share{Compute: 0.3, Limit: 0.3}},
		"best": {Parameters{QoS: BestEffort, Limit: 500}, 300,
			share.Share{Limit: 0.5, Class: share.Opportunistic}},
		"latency": {Parameters{Class: share.Latency, classed: true}, 0,
			share.Share{Class: share.Latency}},
	} {
		c.want.Memory = share.GiB
		got, err := c.p.shareOf(share.GiB, c.compute)
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if err := (share.Job{Name: "x", Share: got}).Validate(); err != nil {
			t.Errorf("%s: the agent would refuse: %v", name, err)
		}
	}
	for want, c := range map[string]struct {
		p       Parameters
		memory  share.Bytes
		compute int
	}{
		"memory of 0":        {Parameters{}, 0, 1},
		"at most 1":          {Parameters{}, 1, 1001},
		"of -1m":             {Parameters{}, 1, -1},
		"limit 100m is":      {Parameters{Limit: 100}, 1, 101},
		"leave limit out":    {Parameters{QoS: Guaranteed, Limit: 200}, 1, 100},
		"Guaranteed without": {Parameters{QoS: Guaranteed}, 1, 0},
		"leave class out":    {Parameters{QoS: BestEffort, classed: true}, 1, 0},
	} {
		if _, err := c.p.shareOf(c.memory, c.compute); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
}
