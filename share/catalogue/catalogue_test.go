package catalogue_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/catalogue"
)

// TestFigures: every device can be simulated, every figure has a source, and what the products of
// figures must be is known from elsewhere: 128 or 64 multiply-adds a unit and cycle, at clocks from
// 1 to 3 GHz.
func TestFigures(t *testing.T) {
	names := map[string]bool{}
	for _, d := range catalogue.All() {
		if names[d.Name] {
			t.Errorf("two devices are named %s", d.Name)
		}
		names[d.Name] = true
		if d.Units < 1 || d.Units > share.MaxUnits || d.Memory < share.GiB || d.Title == "" {
			t.Errorf("%s: %d units, %v, %q", d.Name, d.Units, d.Memory, d.Title)
		}
		lanes := 128.0
		if d.Name == "v100" || strings.HasPrefix(d.Name, "a100") {
			lanes = 64
		}
		if ghz := d.Peak / (2 * lanes * float64(d.Units)) / 1e9; ghz < 1 || ghz > 3 {
			t.Errorf("%s: the peak implies a clock of %.2f GHz", d.Name, ghz)
		}
		if c := d.SwitchCost(); c < 20*time.Microsecond || c > 200*time.Microsecond {
			t.Errorf("%s: a switch takes %v", d.Name, c)
		}
		s := d.Sources
		if s.Units == "" || s.Memory == "" || s.Local == "" || s.Can == "" || s.Switch == "" ||
			(s.Instances == "") != (d.Instances == 0) {
			t.Errorf("%s: figures without a source: %+v", d.Name, s)
		}
	}
}

func TestFind(t *testing.T) {
	d, err := catalogue.Find("H100")
	if err != nil || d.Units != 132 || d.Memory != 80*share.GiB || d.Instances != 7 {
		t.Errorf("H100 is %+v, %v", d, err)
	}
	_, err = catalogue.Find("h999")
	if !errors.Is(err, catalogue.ErrUnknown) || !strings.Contains(err.Error(), "a100-40, a100") {
		t.Errorf("error %v", err)
	}
}
