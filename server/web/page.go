package web

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/share/policy"
)

// Period is the distance in time of two looks at the source, and so of two events.
const Period = 500 * time.Millisecond

// How many looks are remembered: for the lanes of devices, and for the charts of a model.
const (
	laneLooks  = 240
	chartLooks = 600
)

// Options say what a page shows beside its source. All of them may be left out.
type Options struct {
	// Version is what the server says of its own version.
	Version string
	// Figures are where requests, errors and latencies come from. Without it requests are the runs
	// of a model's job, and there are no latencies.
	Figures Reader
	// Graphs reads the graphs of models.
	Graphs Graphs
	// Programs are the devices and programs of an agent. It is called at each look, and must
	// return soon.
	Programs func() ([]Device, []Program)
	// SetProgram gives a program another share, of which what is left out stays, on a device or, if
	// that is "", on whichever has it. nil: programs have the shares that they began with.
	SetProgram func(device, name string, s Share) (Changed[Share], error)
	// Jobs are the newest batch jobs; nil where there are none. It is called at each look, and must
	// return soon.
	Jobs func() []Job
	// Accounts and Trainings report whether the server answers /v1/accounts and /v1/train.
	Accounts, Trainings bool
	// Log is told what goes wrong by the page's fault; nil stands for slog.Default.
	Log *slog.Logger
}

// Page is the page of a server. It needs [Page.Close].
type Page struct {
	o      Options
	source Source
	began  time.Time
	stop   context.CancelFunc
	ended  chan struct{}

	policies []Policy
	changing sync.Mutex    // held while a share or policy is read, changed and written
	graphs   chan struct{} // has one value for each graph that is drawn
	streams  auth.Streams

	mu    sync.Mutex
	n     uint64        // of looks
	at    time.Time     // of the last look
	floor uint64        // the last change that is forgotten
	news  chan struct{} // closed when a look has found a change

	server, devices, models, programs, jobs rows

	histories map[string]*history
	lanes     map[string]map[string]*lane[float32] // by device and name

	charged map[string]time.Duration // to jobs, at the last look
}

// New returns a page that begins to look at its source, once at once.
func New(s Source, o Options) *Page {
	ctx, cancel := context.WithCancel(context.Background())
	if o.Log == nil {
		o.Log = slog.Default()
	}
	p := &Page{o: o, source: s, began: time.Now(), stop: cancel, ended: make(chan struct{}),
		news: make(chan struct{}), histories: map[string]*history{},
		lanes:  map[string]map[string]*lane[float32]{},
		graphs: make(chan struct{}, mostGraphs)}
	for _, name := range s.Policies() {
		if r, err := policy.Find(name); err == nil {
			p.policies = append(p.policies, Policy{name, r.Summary})
		}
	}
	p.at = p.began.Add(-Period)
	p.look()
	go p.run(ctx)
	return p
}

// Close ends the page: readers of its events are sent away.
func (p *Page) Close() {
	p.stop()
	<-p.ended
}

func (p *Page) run(ctx context.Context) {
	defer close(p.ended)
	tick := time.NewTicker(Period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			p.look()
		}
	}
}

// look asks the source, and takes what it says.
func (p *Page) look() {
	st, index := p.source.Status(), p.source.Index(false)
	models := modelRows(&st, index)
	devices := []Device{deviceRow(&st, p.policies)}
	var programs []Program
	if p.o.Programs != nil {
		var more []Device
		more, programs = p.o.Programs()
		devices = append(devices, more...)
	}
	var jobs []Job
	if p.o.Jobs != nil {
		jobs = p.o.Jobs()
	}
	server := Server{Version: p.o.Version, Started: p.began.UnixMilli(), Ready: p.source.Ready(),
		Accounts: p.o.Accounts, Graphs: p.o.Graphs != nil, Jobs: p.o.Jobs != nil,
		Trainings: p.o.Trainings}

	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	passed := max(now.Sub(p.at), time.Millisecond)
	p.n, p.at = p.n+1, now
	used := p.follow(models, st.Jobs, passed)
	drawn := p.drawOthers(st.Device, models, used, passed)
	for i := range models {
		drawn = p.draw(models[i].Device, models[i].Name, models[i].Used) || drawn
	}
	for i := range programs {
		drawn = p.draw(programs[i].Device, programs[i].Name, programs[i].Used) || drawn
	}
	p.forget()
	changed := []bool{
		set(p, &p.server, []Server{server}, func(*Server) string { return "" }),
		set(p, &p.devices, devices, func(d *Device) string { return d.Name }),
		set(p, &p.models, models, func(m *Model) string { return m.Name }),
		set(p, &p.programs, programs, func(g *Program) string { return g.Device + " " + g.Name }),
		set(p, &p.jobs, jobs, (*Job).key),
	}
	for _, c := range changed {
		drawn = drawn || c
	}
	if drawn {
		close(p.news)
		p.news = make(chan struct{})
	}
}

// set takes the rows of a list; p.mu is held.
func set[T any](p *Page, r *rows, list []T, name func(*T) string) bool {
	names, texts := make([]string, len(list)), make([]json.RawMessage, len(list))
	for i := range list {
		names[i], texts[i] = name(&list[i]), encode(&list[i])
	}
	changed, lost := r.set(p.n, names, texts)
	p.floor = max(p.floor, lost)
	return changed
}

// follow fills in what takes two looks to know, and keeps it for the charts. It returns what was
// used since the last look, by model, or by the name of a job that is of none; p.mu is held.
func (p *Page) follow(models []Model, jobs []weir.Usage,
	passed time.Duration) (used map[string]time.Duration) {
	used = map[string]time.Duration{}
	charged := map[string]time.Duration{}
	for i := range jobs {
		job := jobs[i].Name
		charged[job] = jobs[i].Used
		used[modelOf(job)] += time.Duration(since(int64(charged[job]), int64(p.charged[job])))
	}
	p.charged = charged
	for i := range models {
		m := &models[i]
		h := p.histories[m.Name]
		if h == nil {
			h = &history{}
			p.histories[m.Name] = h
		}
		if p.o.Figures != nil {
			all, failed := p.o.Figures.Answered(m.Name)
			m.Requests, m.Errors = int64(all), int64(failed)
		}
		asked := h.see(p.n, m, used[m.Name], passed)
		if p.o.Figures != nil {
			if asked {
				h.now = p.o.Figures.Latency(m.Name)
			}
			h.latency(p.n, m)
		}
	}
	return used
}

// drawOthers draws what those had of a device that are no models; p.mu is held.
func (p *Page) drawOthers(device string, models []Model, used map[string]time.Duration,
	passed time.Duration) (drawn bool) {
	for name, had := range used {
		if !slices.ContainsFunc(models, func(m Model) bool { return m.Name == name }) {
			part := round(min(float64(had)/float64(passed), 1), 3)
			drawn = p.draw(device, name, part) || drawn
		}
	}
	return drawn
}

// draw puts what a name had of a device into its lane, and returns whether that was anything; p.mu
// is held.
func (p *Page) draw(device, name string, part float64) bool {
	if part == 0 {
		return false
	}
	if p.lanes[device] == nil {
		p.lanes[device] = map[string]*lane[float32]{}
	}
	l := p.lanes[device][name]
	if l == nil {
		l = &lane[float32]{}
		p.lanes[device][name] = l
	}
	l.put(p.n, laneLooks, float32(part))
	return true
}

// forget lets go of what nothing is known of any more; p.mu is held.
func (p *Page) forget() {
	for device, lanes := range p.lanes {
		for name, l := range lanes {
			if p.n-l.last >= laneLooks {
				delete(lanes, name)
			}
		}
		if len(lanes) == 0 {
			delete(p.lanes, device)
		}
	}
	for name, h := range p.histories {
		if p.n-h.points.last >= chartLooks {
			delete(p.histories, name)
		}
	}
}

// id is the number of a look as clients know it: with the page's begin, since numbers begin anew,
// and with the [rights] of who asks, since what other rights show may not have changed after it.
func (p *Page) id(n uint64, rights string) string {
	return strconv.FormatInt(p.began.UnixNano(), 36) + "." + strconv.FormatUint(n, 10) + rights
}

// rights tell those that who asks in ctx has now from others; "" where there are no accounts.
func rights(ctx context.Context) string {
	a := auth.Now(ctx)
	if a.Name == "" {
		return ""
	}
	sum := fnv.New64a()
	_, _ = fmt.Fprintf(sum, "%s%q", a.Owner(), a.Grants) // a hash has no errors
	return "." + strconv.FormatUint(sum.Sum64(), 36)
}

// message is the JSON of a [State], made of rows that are encoded already.
type message struct {
	ID       string                          `json:"id"`
	Time     int64                           `json:"time_ms"`
	Period   float64                         `json:"period_ms"`
	Server   json.RawMessage                 `json:"server,omitempty"`
	Devices  []json.RawMessage               `json:"devices,omitempty"`
	Models   []json.RawMessage               `json:"models,omitempty"`
	Programs []json.RawMessage               `json:"programs,omitempty"`
	Jobs     []json.RawMessage               `json:"jobs,omitempty"`
	Gone     Gone                            `json:"gone,omitzero"`
	Lanes    map[string]map[string][]float64 `json:"lanes,omitempty"`
}

// after returns what has changed after look n for whoever asks in ctx and had these rights before
// it was called, and the number of the last look. It is the whole after 0, and where more is gone
// since n than is remembered.
func (p *Page) after(ctx context.Context, n uint64, had string) (text json.RawMessage, last uint64,
	whole bool) {
	all := auth.MayAll(ctx, auth.Read)
	any := func(string) bool { return true }
	may := func(model string) bool { return all || auth.May(ctx, auth.Read, model) }
	p.mu.Lock()
	defer p.mu.Unlock()
	if n < p.floor {
		n = 0
	}
	m := message{ID: p.id(p.n, had), Time: p.at.UnixMilli(), Period: Period.Seconds() * 1000}
	if s, _ := p.server.after(n, any); s != nil {
		m.Server = s[0]
	}
	m.Devices, m.Gone.Devices = p.devices.after(n, any)
	m.Models, m.Gone.Models = p.models.after(n, may)
	if all {
		m.Programs, m.Gone.Programs = p.programs.after(n, any)
	}
	everyone := auth.MayAll(ctx, auth.Admin)
	m.Jobs, m.Gone.Jobs = p.jobs.after(n, func(key string) bool {
		_, owner, _ := strings.Cut(key, " ")
		return everyone || owner == auth.From(ctx).Owner()
	})
	if n == 0 {
		m.Gone = Gone{}
	}
	m.Lanes = p.lanesAfter(n, may)
	return encode(m), p.n, n == 0
}

// lanesAfter returns the lanes from after look n on that are not empty; p.mu is held.
func (p *Page) lanesAfter(n uint64, may func(string) bool) map[string]map[string][]float64 {
	all := map[string]map[string][]float64{}
	for device, lanes := range p.lanes {
		for name, l := range lanes {
			if l.last <= n || !may(name) {
				continue
			}
			var values []float64
			for _, v := range l.after(nil, n, p.n) {
				values = append(values, round(float64(v), 3))
			}
			if all[device] == nil {
				all[device] = map[string][]float64{}
			}
			all[device][name] = values
		}
	}
	return all
}
