package plugin

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// This file is pods that were tried too early. Informers tell the scheduler's queue and this
// plug-in of the same, each on a goroutine of its own. Where the queue is told first, it tries a
// pod that there is room for now, and which the plug-in refuses by what it knew before. Nothing
// that happens later would have the queue try it again, for minutes.

const (
	// lag is by how much the plug-in may be told later than the queue.
	lag = 2 * time.Second
	// calm is between two times that pods are tried again for it: where much changes, and pods wait
	// for something else.
	calm = time.Second
)

// early is the pods that were refused of late.
type early struct {
	refusals []tooEarly // the oldest first
	swept    time.Time  // when they were tried again the last time
	pending  bool       // they will be
}

// tooEarly is a pod that found no room.
type tooEarly struct {
	pod *v1.Pod
	at  time.Time
}

// refuses notes that a pod found no room.
func (p *Plugin) refuses(pod *v1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	p.early.forget(now)
	p.early.refusals = append(p.early.refusals, tooEarly{pod, now})
}

// forget drops refusals of all that the plug-in has been told of by now.
func (e *early) forget(now time.Time) {
	n := 0
	for n < len(e.refusals) && now.Sub(e.refusals[n].at) > lag {
		n++
	}
	e.refusals = e.refusals[n:]
}

// told runs what notes an object, and has pods tried again that found no room a moment ago, if
// there may be some now.
func (p *Plugin) told(note func()) {
	p.mu.Lock()
	before := p.known()
	p.mu.Unlock()
	note()
	p.mu.Lock()
	var wait time.Duration
	e := &p.early
	again := p.known() != before && len(e.refusals) > 0 && !e.pending
	if again {
		e.pending, wait = true, calm-p.clock.Now().Sub(e.swept)
	}
	p.mu.Unlock()
	switch {
	case again && wait > 0:
		p.clock.AfterFunc(wait, p.sweep)
	case again:
		p.sweep()
	}
}

// sweep has those tried again that were refused of late.
func (p *Plugin) sweep() {
	p.mu.Lock()
	e, pods := &p.early, map[string]*v1.Pod{}
	e.pending, e.swept = false, p.clock.Now()
	e.forget(e.swept)
	for _, r := range e.refusals {
		pods[r.pod.Namespace+"/"+r.pod.Name] = r.pod
	}
	e.refusals = nil
	p.mu.Unlock()
	p.tryAgain(pods)
}
