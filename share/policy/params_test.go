package policy_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/share/policy"
)

// TestParseList: a comma ends a policy unless what follows is a parameter.
func TestParseList(t *testing.T) {
	for _, tc := range []struct {
		text, want string // want: the policies with spaces between
	}{
		{"fair", "fair"},
		{"fifo,fair:slice=10ms,burst=2ms,priority", "fifo fair:burst=2ms,slice=10ms priority"},
		{"fair:slice=10ms, timeslice:slice=5ms", "fair:slice=10ms timeslice:slice=5ms"},
		{"mps:form=a:b=c", "mps:form=a:b=c"},
	} {
		list, err := policy.ParseList(tc.text)
		var got []string
		for _, s := range list {
			got = append(got, s.String())
		}
		if err != nil || strings.Join(got, " ") != tc.want {
			t.Errorf("%s: got %q, %v, want %q", tc.text, got, err, tc.want)
		}
	}
	for _, text := range []string{"fair:slice", "fair:slice=1ms,slice=2ms", "fair:,fifo"} {
		if _, err := policy.ParseList(text); !errors.Is(err, policy.ErrParam) {
			t.Errorf("%s: error %v, want a wrong parameter", text, err)
		}
	}
}

// TestParams: what a parameter is called, means and takes can be shown.
func TestParams(t *testing.T) {
	for _, row := range policy.All() {
		for _, p := range row.Params() {
			if p.Name == "" || p.Help == "" || p.Unit == "" {
				t.Errorf("%s: parameter %+v lacks a name, a unit or what it means", row.Name, p)
			}
			if _, err := policy.New(row.Name + ":" + p.Name + "=" + p.Default); err != nil &&
				p.Default != "" {
				t.Errorf("%s: the default of %s is refused: %v", row.Name, p.Name, err)
			}
		}
	}
	fair, err := policy.Find("fair")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(fair.Params(), func(p policy.Param) bool { return p.Name == "slice" })
	if i < 0 {
		t.Fatalf("fair has no slice: %+v", fair.Params())
	}
	if p := fair.Params()[i]; p.Default != "20ms" || p.Unit != "duration" {
		t.Errorf("fair's slice is %+v", p)
	}
}
