package cpuinfo

import (
	"cmp"
	"fmt"
)

// mostKinds bounds what is believed of the number of kinds of cores.
const mostKinds = 16

// The names that Darwin's sysctl(3) has for the levels of performance of a processor's cores, of
// which 0 is the fastest: how many cores are of a level, their caches, and how many of them share
// one of the second level. Values that the system does not have are 0.
//
// The functions below take what asks it, so that they are the same everywhere.

// sysctlKinds are the kinds of cores.
func sysctlKinds(ask func(name string) int) (kinds []CoreKind) {
	for level := range min(ask("hw.nperflevels"), mostKinds) {
		if n := ask(fmt.Sprintf("hw.perflevel%d.logicalcpu", level)); n > 0 {
			kinds = append(kinds, CoreKind{Cores: n})
		}
	}
	return kinds
}

// sysctlCaches are the caches of a core, of the second level its part of what several share. Where
// there is no third level the shared second takes its place. Of unlike cores the least counts.
func sysctlCaches(ask func(name string) int) (c Caches) {
	for level := range min(ask("hw.nperflevels"), mostKinds) {
		of := func(name string) int { return ask(fmt.Sprintf("hw.perflevel%d.%s", level, name)) }
		second := of("l2cachesize")
		sharing := of("cpusperl2") * of("physicalcpu") / max(of("logicalcpu"), 1)
		c = c.least(Caches{L1D: of("l1dcachesize"), L2: second / max(sharing, 1), L3: second})
	}
	return Caches{
		L1D: cmp.Or(c.L1D, ask("hw.l1dcachesize")),
		L2:  cmp.Or(c.L2, ask("hw.l2cachesize")),
		L3:  cmp.Or(ask("hw.l3cachesize"), c.L3),
	}
}
