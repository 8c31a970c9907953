package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirgpu/weir/feed"
	"github.com/weirgpu/weir/scenario"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/zoo"
)

// This file is the demo of memory that jobs have in turn.

const crowdIntro = "Many models on a device that holds a few of them. Some are asked often, most " +
	"hardly ever. The weights of those that nobody asks leave the device when others need the " +
	"room, and come back, in the order in which they are used, while the first layers compute. " +
	"No request fails, and none is refused."

// crowdKinds are the networks of the demo's models, each a variant whose activations are small.
var crowdKinds = []struct {
	arch    string
	options zoo.Options
	shapes  map[string]feed.Shape
}{
	{"resnet50", zoo.Options{Resolution: 96, Width: 0.75}, nil},
	{"mobilenetv2", zoo.Options{Resolution: 96, Width: 2}, nil},
	{"minilm-l6", zoo.Options{Vocabulary: 2000}, crowdTokens},
	{"bert-base", zoo.Options{Layers: 2, Vocabulary: 2000}, crowdTokens},
	{"gpt2", zoo.Options{Layers: 2, Vocabulary: 2000}, crowdTokens},
}

var crowdTokens = map[string]feed.Shape{"input_ids": {1, 16}}

const (
	crowdModels = 20
	// crowdRate is how many requests all models get in a second: few enough that each can wait for
	// its model, on a machine of two cores.
	crowdRate = 10.0
)

// crowdScenario serves models that have the device's memory in turn: those given, or twenty made-up
// ones.
func crowdScenario(models []string, memory share.Bytes, eviction string,
	duration time.Duration) (*scenario.Scenario, error) {
	s := &scenario.Scenario{Policy: "fair", Duration: duration, Seed: 1, Memory: memory,
		Eviction: eviction}
	for i, path := range models {
		s.Jobs = append(s.Jobs, scenario.Job{Model: path, Job: share.Job{Name: fmt.Sprintf("%d-%s",
			i+1, strings.TrimSuffix(filepath.Base(path), ".onnx"))}})
	}
	for i := 0; len(models) == 0 && i < crowdModels; i++ {
		kind := &crowdKinds[i%len(crowdKinds)]
		o := kind.options
		o.Seed = uint64(i + 1)
		g, err := zoo.New(kind.arch, o)
		if err != nil {
			return nil, err
		}
		s.Jobs = append(s.Jobs, scenario.Job{Model: kind.arch, Graph: g, Shapes: kind.shapes,
			Job: share.Job{Name: fmt.Sprintf("%d-%s", i+1, kind.arch)}})
	}
	byZipf(s.Jobs)
	return s, nil
}

// byZipf has the n-th most popular job asked a n-th as often as the first: Zipf's law, as of
// requests on the web (Breslau et al., INFOCOM 1999).
func byZipf(jobs []scenario.Job) {
	sum := 0.0
	for i := range jobs {
		sum += 1 / float64(i+1)
	}
	for i := range jobs {
		jobs[i].Elastic = true
		jobs[i].Arrival = scenario.Arrival{Poisson: crowdRate / sum / float64(i+1)}
	}
}

// crowdNotes say what to look at.
func crowdNotes(res *scenario.Result) []string {
	var missed, requests int64
	for i := range res.Jobs {
		j := &res.Jobs[i]
		missed, requests = missed+j.Missed, requests+j.Iterations
	}
	weights, _ := scenario.Weights(res.Jobs)
	notes := []string{fmt.Sprintf("The weights of the %d models are %s together. %d of %d "+
		"requests came for a model that was away in whole or in part.", len(res.Jobs),
		share.Bytes(weights).About(), missed, requests)}
	if missed == 0 {
		return append(notes, "None had to leave: give less --memory to see how they take turns.")
	}
	return append(notes, "Models that are asked often stay; which one leaves is decided by the "+
		"rule "+cmp.Or(res.Eviction, "lru")+".")
}
