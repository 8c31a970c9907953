package plugin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/weirgpu/weir/kube/live"
)

// Annotations of a pod that is one of a gang: of which in its namespace, of how many, and how long
// seats are held for all of them to get theirs.
const (
	GangAnnotation         = "weir.dev/gang"
	GangSizeAnnotation     = "weir.dev/gang-size"
	GangDeadlineAnnotation = "weir.dev/gang-deadline"
)

// mostGang bounds the members of a gang.
const mostGang = 10000

// gang is pods that run together or not at all.
type gang struct {
	size    int
	members map[types.UID]*v1.Pod // that have come and are not on a node
	waiting map[types.UID]bool    // of them, those that have their place and wait for others
	joined  map[types.UID]bool    // on a node
	timer   clock.Timer           // until the deadline; nil while no seats are held
	failed  uint64                // what live.Cluster.Freed was when it had no room
	reason  string                // and why; "" if it was not so
}

// gangOfPod is what a pod says of its gang.
type gangOfPod struct {
	name     string // with its namespace; "" for none
	size     int
	deadline time.Duration
	err      error
}

func gangOf(pod *v1.Pod) (g gangOfPod) {
	name, ok := pod.Annotations[GangAnnotation]
	if !ok {
		return g
	}
	g.name = pod.Namespace + "/" + name
	size := pod.Annotations[GangSizeAnnotation]
	n, err := strconv.Atoi(size)
	if err != nil || n < 1 || n > mostGang || name == "" {
		g.err = fmt.Errorf("gang %q: annotation %s is %q: want how many pods it has, 1 to %d",
			name, GangSizeAnnotation, size, mostGang)
	}
	g.size = n
	if text, ok := pod.Annotations[GangDeadlineAnnotation]; ok {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			g.err = fmt.Errorf("gang %q: annotation %s is %q: want a time such as 90s", name,
				GangDeadlineAnnotation, text)
		}
		g.deadline = d
	}
	return g
}

// gangError is why a gang has no place.
type gangError string

func (e gangError) Error() string { return string(e) }

func (p *Plugin) gang(g gangOfPod) *gang {
	to := p.gangs[g.name]
	if to == nil {
		to = &gang{members: map[types.UID]*v1.Pod{}, waiting: map[types.UID]bool{},
			joined: map[types.UID]bool{}}
		p.gangs[g.name] = to
	}
	to.size = max(to.size, g.size)
	return to
}

// arrives notes a member. While others are missing that is an error; the last one brings those that
// have waited for it.
func (p *Plugin) arrives(g gangOfPod, pod *v1.Pod) (others map[string]*v1.Pod, err error) {
	to := p.gang(g)
	was := len(to.members) + len(to.joined)
	to.members[pod.UID] = pod
	is := len(to.members) + len(to.joined)
	if is < to.size {
		return nil, fmt.Errorf("gang %s: %d of %d members are there", g.name, is, to.size)
	}
	if was < to.size {
		others = map[string]*v1.Pod{}
		for uid, m := range to.members {
			if uid != pod.UID {
				others[m.Namespace+"/"+m.Name] = m
			}
		}
	}
	return others, nil
}

// seatGang holds seats for all members of a gang that have none, or for none of them.
func (p *Plugin) seatGang(g gangOfPod, pod *v1.Pod) error {
	to := p.gang(g)
	if g.err != nil {
		return gangError(g.err.Error())
	}
	if _, ok := p.live.Held(seatKey(string(pod.UID))); ok {
		return nil
	}
	if to.reason != "" && to.failed == p.live.Freed() {
		return gangError(to.reason)
	}
	members, err := p.unseated(to)
	if err == nil {
		_, err = p.live.Gang(members)
	}
	if err != nil {
		to.reason = fmt.Sprintf("gang %s: %v", g.name, err)
		to.failed = p.live.Freed()
		for uid := range to.members {
			delete(p.refused, string(uid)) // what was refused may be had another time
		}
		return gangError(to.reason)
	}
	to.reason = ""
	if to.timer == nil {
		deadline := cmp.Or(g.deadline, p.args.GangDeadline.Duration)
		to.timer = p.clock.AfterFunc(deadline, func() { p.late(to, g.name, deadline) })
	}
	return nil
}

// unseated returns who needs a seat, by name.
func (p *Plugin) unseated(g *gang) ([]live.Member, error) {
	var pods []*v1.Pod
	for uid, pod := range g.members {
		if _, ok := p.live.Held(seatKey(string(uid))); !ok && !g.waiting[uid] {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *v1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	members := make([]live.Member, len(pods))
	for i, pod := range pods {
		d, err := p.read(pod)
		if err != nil {
			return nil, fmt.Errorf("member %s: %w", pod.Name, err)
		}
		if d.foreign {
			return nil, fmt.Errorf("member %s: its claims are not for alike parts of weir's "+
				"devices alone, which a gang can have no seats for", pod.Name)
		}
		allow, refused := p.allowed(pod, d), p.refused[string(pod.UID)]
		members[i] = live.Member{Key: seatKey(string(pod.UID)), Request: d.Request, Allow: allow}
		if len(refused) > 0 {
			members[i].Allow = func(node string) bool {
				return !refused[node] && (allow == nil || allow(node))
			}
		}
	}
	return members, nil
}

// Permit implements fwk.PermitPlugin: members of a gang wait until all have their place.
func (p *Plugin) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status,
	time.Duration) {
	g := gangOf(pod)
	if g.name == "" {
		return nil, 0
	}
	p.mu.Lock()
	to := p.gang(g)
	to.waiting[pod.UID] = true
	complete := len(to.waiting)+len(to.joined) >= to.size
	var waiting []types.UID
	if complete {
		for uid := range to.waiting {
			waiting = append(waiting, uid)
			delete(to.members, uid)
			to.joined[uid] = true
		}
		clear(to.waiting)
		to.stop()
	}
	p.mu.Unlock()
	if !complete {
		// The gang's own timer comes first, and says more.
		deadline := cmp.Or(g.deadline, p.args.GangDeadline.Duration)
		return fwk.NewStatus(fwk.Wait), deadline + time.Minute
	}
	for _, uid := range waiting {
		if w := p.handle.GetWaitingPod(uid); w != nil {
			w.Allow(Name)
		}
	}
	return nil, 0
}

// stop ends the wait for the deadline.
func (g *gang) stop() {
	if g.timer != nil {
		g.timer.Stop()
		g.timer = nil
	}
}

// joined notes that a member is on a node.
func (p *Plugin) joined(pod *v1.Pod) {
	g := gangOf(pod)
	if g.name == "" || g.err != nil {
		return
	}
	to := p.gang(g)
	delete(to.members, pod.UID)
	delete(to.waiting, pod.UID)
	to.joined[pod.UID] = true
}

// rejection is members that lose their place, and why.
type rejection struct {
	pods   []types.UID
	reason string
}

// loses takes all seats and places from the gang of a pod that lost its own.
func (p *Plugin) loses(pod *v1.Pod, why string) *rejection {
	g := gangOf(pod)
	to := p.gangs[g.name]
	if g.name == "" || to == nil {
		return nil
	}
	if to.joined[pod.UID] { // it was let go to its node, and did not get there
		delete(to.joined, pod.UID)
		to.members[pod.UID] = pod
		return nil
	}
	if to.members[pod.UID] == nil {
		return nil
	}
	return p.scatter(to, fmt.Sprintf("gang %s: %s (%s)", g.name, why, pod.Name))
}

// scatter takes all seats and places of a gang.
func (p *Plugin) scatter(g *gang, reason string) *rejection {
	r := &rejection{reason: reason}
	for uid := range g.members {
		p.live.Withdraw(seatKey(string(uid)))
	}
	for uid := range g.waiting {
		r.pods = append(r.pods, uid)
	}
	clear(g.waiting)
	g.stop()
	return r
}

// leaves notes that a pod is no more.
func (p *Plugin) leaves(pod *v1.Pod) *rejection {
	g := gangOf(pod)
	to := p.gangs[g.name]
	if g.name == "" || to == nil {
		return nil
	}
	var r *rejection
	if to.members[pod.UID] != nil {
		r = p.scatter(to, fmt.Sprintf("gang %s: member %s was deleted", g.name, pod.Name))
	}
	delete(to.members, pod.UID)
	delete(to.joined, pod.UID)
	if len(to.members)+len(to.joined) == 0 {
		delete(p.gangs, g.name)
	}
	return r
}

// late ends the wait of a gang whose deadline has come.
func (p *Plugin) late(g *gang, name string, deadline time.Duration) {
	p.mu.Lock()
	if g.timer == nil {
		p.mu.Unlock()
		return
	}
	r := p.scatter(g, fmt.Sprintf("gang %s: after %v %d of %d members had their place: all have "+
		"given it back", name, deadline, len(g.waiting)+len(g.joined), g.size))
	p.mu.Unlock()
	p.reject(r)
}

// reject tells members that wait with their place that they have lost it.
func (p *Plugin) reject(r *rejection) {
	if r == nil {
		return
	}
	for _, uid := range r.pods {
		if w := p.handle.GetWaitingPod(uid); w != nil {
			w.Reject(Name, r.reason)
		}
	}
}
