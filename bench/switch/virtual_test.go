package main

import (
	"strings"
	"testing"
)

// TestExposures reads what the engine's test says: of each bus the worst is held, a switch that
// exposes nothing where nothing has to be is none, and a bus of which nothing is said is an error.
func TestExposures(t *testing.T) {
	const of = `{"Action":"attr","Test":"TestExposed/x","Key":"exposed","Value":"{\"Model\":` +
		`\"m\",\"Computer\":\"c\",\"GBs\":`
	said := `{"Action":"output","Test":"TestExposed/x","Output":"as printed\n"}` + "\n" +
		`{"Action":"attr","Test":"TestExposed/x","Key":"other","Value":"3"}` + "\n" +
		of + `1,\"Exposed\":100,\"Least\":100}"}` + "\n" +
		of + `1,\"Exposed\":120,\"Least\":100}"}` + "\n" +
		of + `1,\"Exposed\":90,\"Least\":100}"}` + "\n" +
		of + `5,\"Exposed\":0,\"Least\":0}"}` + "\n" +
		of + `20,\"Exposed\":2000,\"Least\":0}"}` + "\n"
	all, printed, err := exposures(strings.NewReader(said))
	if err != nil || len(all) != 5 || printed != "as printed\n" {
		t.Fatalf("read %+v and %q: %v", all, printed, err)
	}
	b := &bench{results: results{Figures: map[string]float64{}}}
	if err := b.exposed(all); err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{1.2, 1, 3} {
		if c := b.Claims[i]; c.Rounds[0] != want || c.Bound != 1.1 || !c.Most ||
			c.Name != virtualClaim(buses[i]) {
			t.Errorf("%+v, want %v", c, want)
		}
	}
	if b.heldVirtually() {
		t.Error("1.2 is above 1.1, and all is said to be held")
	}
	b = &bench{results: results{Figures: map[string]float64{}}}
	if err := b.exposed(all[2:4]); err == nil {
		t.Error("nothing was said of 20 GB/s")
	}
	if !b.heldVirtually() {
		t.Error("what was said is held")
	}
	for _, bad := range []string{`{"Action":`,
		`{"Action":"attr","Key":"exposed","Value":"no JSON"}`} {
		if _, _, err := exposures(strings.NewReader(bad)); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}
