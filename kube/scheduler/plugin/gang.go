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
	round   int                   // how often seats have been held
	failed  known                 // as of when it had no room
	reason  string                // and why; "" if it was not so
}

// known is a state of all that decides whether a gang has room: while it stays as it was, asking
// again is in vain.
type known struct {
	freed   uint64 // live.Cluster.Freed
	changed uint64 // Plugin.changed
}

func (p *Plugin) known() known { return known{p.live.Freed(), p.changed} }

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
	was := to.there()
	to.members[pod.UID] = pod
	if err := to.whole(g.name); err != nil {
		return nil, err
	}
	if was < to.size {
		others = to.others(pod.UID)
	}
	return others, nil
}

// there is how many members have come.
func (g *gang) there() int { return len(g.members) + len(g.joined) }

// whole is an error while members are missing.
func (g *gang) whole(name string) error {
	if n := g.there(); n < g.size {
		return fmt.Errorf("gang %s: %d of %d members are there", name, n, g.size)
	}
	return nil
}

// others are the members that are not on a node and do not wait with a place, but one.
func (g *gang) others(but types.UID) map[string]*v1.Pod {
	others := map[string]*v1.Pod{}
	for uid, m := range g.members {
		if uid != but && !g.waiting[uid] {
			others[m.Namespace+"/"+m.Name] = m
		}
	}
	return others
}

// seatGang holds seats for all members of a gang that have none, or for none of them.
func (p *Plugin) seatGang(g gangOfPod, pod *v1.Pod) error {
	if g.err != nil {
		return gangError(g.err.Error())
	}
	to := p.gangs[g.name]
	if to == nil || to.members[pod.UID] == nil {
		return gangError(fmt.Sprintf("gang %s: member %s was deleted", g.name, pod.Name))
	}
	if _, ok := p.live.Held(seatKey(string(pod.UID))); ok {
		return nil
	}
	// Members may have gone since this one was let into the queue.
	if err := to.whole(g.name); err != nil {
		return gangError(err.Error())
	}
	if to.reason != "" && to.failed == p.known() {
		return gangError(to.reason)
	}
	to.reason = ""
	members, err := p.unseated(to)
	if err != nil {
		return gangError(fmt.Sprintf("gang %s: %v", g.name, err))
	}
	if _, err = p.live.Gang(members); err != nil {
		return p.unseatable(to, g, err)
	}
	p.limit(to, g)
	// They may wait for what does not come any more, or for longer than the deadline.
	p.tryAgain(to.others(pod.UID))
	return nil
}

// limit begins the time for which seats and places are held, unless it has begun.
func (p *Plugin) limit(to *gang, g gangOfPod) {
	if to.timer != nil {
		return
	}
	to.round++
	round, deadline := to.round, cmp.Or(g.deadline, p.args.GangDeadline.Duration)
	to.timer = p.clock.AfterFunc(deadline, func() { p.late(to, g.name, round, deadline) })
}

// unseatable notes why a gang has no room.
func (p *Plugin) unseatable(to *gang, g gangOfPod, err error) error {
	reason, refused := fmt.Sprintf("gang %s: %v", g.name, err), false
	for uid := range to.members {
		refused = refused || len(p.refused[string(uid)]) > 0
		delete(p.refused, string(uid)) // what was refused may be had another time
	}
	if !refused {
		to.reason, to.failed = reason, p.known()
	}
	return gangError(reason)
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
	has := map[string]string{} // by claims: the member that is to have it
	for i, pod := range pods {
		d, err := p.read(pod)
		if err != nil {
			return nil, fmt.Errorf("member %s: %w", pod.Name, err)
		}
		if d.foreign {
			return nil, fmt.Errorf("member %s: its claims are not for alike parts of weir's "+
				"devices alone, which a gang can have no seats for", pod.Name)
		}
		if err := alone(has, pod.Name, d.fresh); err != nil {
			return nil, err
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

// alone refuses a member that shares a claim with one before it: the first to be placed would have
// it when all are, and until then no other can be placed.
func alone(has map[string]string, member string, claims []string) error {
	for _, c := range claims {
		if other := has[c]; other != "" {
			return fmt.Errorf("member %s: shares claim %s with member %s, and a claim that nobody "+
				"has yet is given to one pod first: give each a claim of its own", member, c, other)
		}
		has[c] = member
	}
	return nil
}

// Permit implements fwk.PermitPlugin: members of a gang wait until all have their place.
func (p *Plugin) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status,
	time.Duration) {
	g := gangOf(pod)
	if g.name == "" {
		return nil, 0
	}
	p.mu.Lock()
	to := p.gangs[g.name]
	if to == nil || to.members[pod.UID] == nil {
		p.mu.Unlock()
		return fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("gang %s: member %s was deleted",
			g.name, pod.Name)), 0
	}
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
	} else {
		p.limit(to, g) // the seats' time may have ended while this member was on its way
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

// joined notes that a member is on a node, whoever has placed it. If it was the one that was
// missing, those that have waited for it are tried.
func (p *Plugin) joined(pod *v1.Pod) {
	g := gangOf(pod)
	if g.name == "" || g.err != nil {
		return
	}
	to := p.gang(g)
	was := to.there()
	delete(to.members, pod.UID)
	delete(to.waiting, pod.UID)
	to.joined[pod.UID] = true
	if was < to.size && to.there() >= to.size {
		p.tryAgain(to.others(pod.UID))
	}
}

// rejection is members that lose their place, and why.
type rejection struct {
	pods   []types.UID
	reason string
}

// loses takes all seats and places from the gang of a pod that lost its own.
func (p *Plugin) loses(pod *v1.Pod, why string) *rejection {
	if _, ok := p.doomed[pod.UID]; ok { // its place was taken with its gang's
		delete(p.doomed, pod.UID)
		return nil
	}
	g := gangOf(pod)
	to := p.gangs[g.name]
	if g.name == "" || to == nil {
		return nil
	}
	delete(to.waiting, pod.UID)
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
		p.doomed[uid] = reason
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
func (p *Plugin) late(g *gang, name string, round int, deadline time.Duration) {
	p.mu.Lock()
	if g.timer == nil || g.round != round {
		p.mu.Unlock()
		return
	}
	r := p.scatter(g, fmt.Sprintf("gang %s: after %v %d of %d members had their place: all have "+
		"given it back", name, deadline, len(g.waiting)+len(g.joined), g.size))
	p.mu.Unlock()
	p.reject(r)
}

// onItsWay is how soon a member is looked for again that is between Permit and the framework's
// wait.
const onItsWay = 10 * time.Millisecond

// reject tells members that wait with their place that they have lost it. One that the framework
// does not have waiting yet is told when it has.
func (p *Plugin) reject(r *rejection) {
	if r == nil {
		return
	}
	for _, uid := range r.pods {
		if w := p.handle.GetWaitingPod(uid); w != nil {
			w.Reject(Name, r.reason)
			continue
		}
		p.clock.AfterFunc(onItsWay, func() {
			p.mu.Lock()
			reason, is := p.doomed[uid]
			p.mu.Unlock()
			if is {
				p.reject(&rejection{pods: []types.UID{uid}, reason: reason})
			}
		})
	}
}
