package cache

import (
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/weirgpu/weir/device/compute"
)

// A file of choices is a small one, whose body is
//
//	name of the processor
//	way problem
//	...
//
// with a line for each problem, in order. Its name says for which version and target it is
// (compute.Target.Identity). The processor is in the file, so that a program that finds none need
// not ask the system for it.
const (
	choicesMagic   = "weirways"
	choicesVersion = 3
	choicesSuffix  = ".ways"

	// maxChoices bounds the bytes of a file's body: some ten thousand problems.
	maxChoices = 1 << 20
)

// choicesFile is where the choices of this program for a target are.
func (c *Cache) choicesFile(t compute.Target) string {
	k := keyOf("ways", fmt.Sprint(choicesVersion), c.release, t.Identity())
	return k.String() + choicesSuffix
}

// Choices returns the ways of computing that were measured for a target on this processor, with
// this version of weir, and kept by [Cache.KeepChoices]: nil when there are none, and for no
// target. A damaged file counts as none and is removed; one that was measured on another processor,
// with which this one may share its disk, counts as none and stays.
func (c *Cache) Choices(t compute.Target) compute.Choices {
	if c == nil || t == nil {
		return nil
	}
	name := c.choicesFile(t)
	var processor string
	var choices compute.Choices
	body, err := c.readSealed(name, choicesMagic, maxChoices)
	if err == nil {
		processor, choices, err = decodeChoices(body)
	}
	if err != nil {
		c.refuse(name, err)
		return nil
	}
	if processor != c.processor() {
		c.log.Debug("plan cache: choices of another processor", "file", name, "processor",
			processor)
		return nil
	}
	c.touch(name)
	c.log.Debug("plan cache: choices found", "file", name, "problems", len(choices))
	return choices
}

// KeepChoices adds choices to those that are kept for a target, replacing earlier choices for the
// same problems. When they are too many together, only the added ones are kept. When two processes
// add choices at the same time, those of one of them may be lost.
func (c *Cache) KeepChoices(t compute.Target, add compute.Choices) error {
	all := c.Choices(t)
	if all == nil {
		all = compute.Choices{}
	}
	maps.Copy(all, add)
	data, err := encodeChoices(c.processor(), all)
	if err == nil && len(data) > maxChoices {
		data, err = encodeChoices(c.processor(), add)
	}
	if err != nil {
		return err
	}
	return c.writeSealed(c.choicesFile(t), choicesMagic, maxChoices, data)
}

func encodeChoices(processor string, choices compute.Choices) ([]byte, error) {
	body := append([]byte(processor), '\n')
	for _, problem := range slices.Sorted(maps.Keys(choices)) {
		way := choices[problem]
		if way == "" || problem == "" || strings.ContainsAny(way, " \n") ||
			strings.Contains(problem, "\n") {
			return nil, fmt.Errorf("way %q of problem %q: want a word and a line", way, problem)
		}
		body = fmt.Appendf(body, "%s %s\n", way, problem)
	}
	return body, nil
}

// decodeChoices reads what encodeChoices writes.
func decodeChoices(body []byte) (processor string, choices compute.Choices, err error) {
	processor, lines, _ := strings.Cut(string(body), "\n")
	choices = compute.Choices{}
	for line := range strings.Lines(lines) {
		way, problem, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !ok || way == "" || problem == "" {
			return "", nil, fmt.Errorf("%w: line %q", errDamaged, line)
		}
		choices[problem] = way
	}
	return processor, choices, nil
}

// module is the path of weir's module.
const module = "github.com/weirgpu/weir"

// release identifies the kernels of a program: by the version of weir's module where it was built
// of one, so that all programs that use the version share what was measured, and by the program's
// build where it was not.
func release(info *debug.BuildInfo, build string) string {
	if info == nil {
		return build
	}
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path != module {
			continue
		}
		if m.Replace == nil && m.Version != "" && m.Version != "(devel)" &&
			!strings.Contains(m.Version, "+dirty") {
			return "version " + m.Version
		}
		break
	}
	return build
}
