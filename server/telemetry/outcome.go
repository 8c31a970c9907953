package telemetry

import (
	"strings"

	"github.com/weirgpu/weir/server/oip"
)

// outcome is how a request ended: 0 is well, and else 1 more than its error's kind.
type outcome int

const (
	ok       outcome = 0
	outcomes         = outcome(oip.Cancelled) + 2
)

func outcomeOf(err error) outcome {
	if err == nil {
		return ok
	}
	return outcome(oip.KindOf(err)) + 1
}

// names are what outcomes are called in metrics and logs.
var names = func() (list [outcomes]string) {
	list[ok] = "ok"
	for o := ok + 1; o < outcomes; o++ {
		list[o] = strings.ReplaceAll(oip.Kind(o-1).String(), " ", "_")
	}
	return list
}()
