package web

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/internal/sorting"
	"github.com/weirgpu/weir/server/oip"
)

// State is all that the page shows, at one moment: the answer to GET /v1/state and the data of an
// event "state". An event "change" has only what has changed since the event before, the names of
// what is gone, and the lanes from then on.
type State struct {
	// ID is the moment's number, as Last-Event-ID says it.
	ID string `json:"id"`
	// Time is the moment in milliseconds of Unix's time, and Period the distance of two values of
	// a lane, in milliseconds too.
	Time   int64   `json:"time_ms"`
	Period float64 `json:"period_ms"`

	Server   *Server   `json:"server,omitempty"`
	Devices  []Device  `json:"devices,omitempty"`
	Models   []Model   `json:"models,omitempty"`
	Programs []Program `json:"programs,omitempty"`
	Jobs     []Job     `json:"jobs,omitempty"`
	Gone     Gone      `json:"gone,omitzero"`

	// Lanes are the parts of a device that a model or program had: by device, then by name, one
	// for each Period, the last at Time. Those that had none are left out.
	Lanes map[string]map[string][]float64 `json:"lanes,omitempty"`
}

// Gone are the names of rows that were there and are no more.
type Gone struct {
	Devices  []string `json:"devices,omitempty"`
	Models   []string `json:"models,omitempty"`
	Programs []string `json:"programs,omitempty"`
	Jobs     []string `json:"jobs,omitempty"` // as "ID ACCOUNT"
}

// Server is the server itself.
type Server struct {
	Version string `json:"version"`
	Started int64  `json:"started_ms"` // in milliseconds of Unix's time
	Ready   bool   `json:"ready"`
	// Accounts, Graphs, Jobs and Trainings report whether the server has them.
	Accounts  bool `json:"accounts"`
	Graphs    bool `json:"graphs"`
	Jobs      bool `json:"jobs"`
	Trainings bool `json:"trainings"`
}

// Device is a device that is shared.
type Device struct {
	Name  string `json:"name"`
	Label string `json:"label,omitempty"` // what people call it
	// Policy decides who runs, and Policies are those that could. Without any the policy is not
	// the page's to change.
	Policy   string   `json:"policy"`
	Policies []Policy `json:"policies,omitempty"`
	Memory   int64    `json:"memory_bytes"`
	Promised int64    `json:"promised_bytes"`
	Held     int64    `json:"held_bytes"`
	// Faults counts the policy's instructions that could not be carried out; Fault is the first.
	Faults int64  `json:"faults,omitempty"`
	Fault  string `json:"fault,omitempty"`
}

// Policy is a policy that a device can enforce.
type Policy struct {
	Name string `json:"name"`
	What string `json:"what"`
}

// Model is a model of the server.
type Model struct {
	Name     string    `json:"name"`
	Version  string    `json:"version"` // that is served, "" for none
	State    string    `json:"state"`   // LOADING, READY or UNAVAILABLE
	Reason   string    `json:"reason,omitempty"`
	Versions []Version `json:"versions"` // [] where none is known
	Device   string    `json:"device"`

	Class   string  `json:"class,omitempty"`
	Compute float64 `json:"compute"`
	Limit   float64 `json:"limit"` // 1 where there is none
	Cap     int64   `json:"memory_cap_bytes"`
	Held    int64   `json:"memory_held_bytes"`
	Peak    int64   `json:"memory_peak_bytes"`
	Shared  int64   `json:"memory_shared_bytes,omitempty"` // of Held, which others use, too
	Where   string  `json:"where,omitempty"`               // resident or away, of its weights

	Queue    int      `json:"queue"`
	Requests int64    `json:"requests"`
	Errors   int64    `json:"errors"`
	Rate     float64  `json:"rate"`   // requests a second
	P50      *float64 `json:"p50_ms"` // nil where there were none of late
	P99      *float64 `json:"p99_ms"`
	Used     float64  `json:"device_share"` // part of the device since the last moment
	Holds    bool     `json:"holds"`        // units of the device, now
}

// Version is a version of a model.
type Version struct {
	Version string `json:"version"`
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
}

// Program is a program under weir exec.
type Program struct {
	Name    string  `json:"name"`
	Device  string  `json:"device"`
	Class   string  `json:"class"`
	State   string  `json:"state"`
	Compute float64 `json:"compute"`
	Limit   float64 `json:"limit"`
	Cap     int64   `json:"memory_cap_bytes"`
	Held    int64   `json:"memory_held_bytes"`
	Used    float64 `json:"device_share"`
}

// Job is a batch job.
type Job struct {
	ID      int64  `json:"id"`
	Account string `json:"account"`
	Owner   string `json:"owner,omitempty"` // auth.Account.Owner, who sees it
	Name    string `json:"name"`
	Model   string `json:"model"`
	State   string `json:"state"` // queued, running, done, failed or cancelled
	Reason  string `json:"reason,omitempty"`
	Rows    int64  `json:"rows"`
	Done    int64  `json:"done_rows"`
	Bytes   int64  `json:"result_bytes"`
	Made    int64  `json:"made_ms"` // in milliseconds of Unix's time
	Ended   int64  `json:"ended_ms,omitempty"`
}

// key names the row.
func (j *Job) key() string { return strconv.FormatInt(j.ID, 10) + " " + j.Owner }

// Where a model's weights are.
const (
	resident = "resident"
	away     = "away"
)

// models makes a row of each model of the index, and of what its job has.
func modelRows(st *weir.HostStatus, index []oip.IndexEntry) []Model {
	jobs := map[string][]*weir.Usage{}
	for i := range st.Jobs {
		model := modelOf(st.Jobs[i].Name)
		jobs[model] = append(jobs[model], &st.Jobs[i])
	}
	var rows []Model
	at := map[string]int{}
	for _, e := range index {
		i, known := at[e.Name]
		if !known {
			i = len(rows)
			at[e.Name] = i
			rows = append(rows, Model{Name: e.Name, Device: st.Device, Limit: 1,
				Versions: []Version{}})
		}
		rows[i].add(e)
	}
	for i := range rows {
		m := &rows[i]
		sorting.By(m.Versions, func(a, b Version) int {
			return cmp.Or(cmp.Compare(len(a.Version), len(b.Version)),
				cmp.Compare(a.Version, b.Version))
		})
		m.have(jobs[m.Name])
	}
	return rows
}

// modelOf is the model of which a job is a version; of other jobs, their name.
func modelOf(job string) string {
	if i := strings.LastIndexByte(job, '/'); i >= 0 {
		return job[:i]
	}
	return job
}

// add adds a version. The state of a model is that of the version that is furthest, and of several
// the newest: an index has them in this order.
func (m *Model) add(e oip.IndexEntry) {
	if e.Version != "" {
		m.Versions = append(m.Versions, Version{e.Version, e.State, e.Reason})
	}
	if m.State == "" || rank(e.State) >= rank(m.State) {
		m.State, m.Reason, m.Version = e.State, e.Reason, ""
		if e.State == ready {
			m.Version = e.Version
		}
	}
}

// ready is the state of a model in the index that answers.
const ready = "READY"

// rank orders the states of a model.
func rank(state string) int {
	return slices.Index([]string{"UNAVAILABLE", "UNLOADING", "LOADING", ready}, state)
}

// have fills in what the jobs of the model's versions have, and the share of the newest.
func (m *Model) have(jobs []*weir.Usage) {
	for _, u := range jobs {
		if m.of(u) {
			m.Class, m.Compute = u.Share.Class.String(), u.Share.Compute
			m.Limit = u.Share.Cap()
		}
		m.Cap, m.Held, m.Peak = m.Cap+int64(u.Share.Memory), m.Held+int64(u.Memory),
			m.Peak+int64(u.Peak)
		m.Shared += int64(u.Shared)
		m.Queue, m.Requests, m.Holds = m.Queue+u.Queue, m.Requests+u.Runs, m.Holds || u.Holds
		m.Where = resident
	}
	if m.Held == 0 && m.Where != "" {
		m.Where = away
	}
}

// of reports whether a job is that of the version which answers requests that name none.
func (m *Model) of(u *weir.Usage) bool {
	_, number, _ := strings.Cut(u.Name[len(modelOf(u.Name)):], "/")
	number, _, _ = strings.Cut(number, "~")
	return number == m.Version
}

// deviceRow makes the row of the host's device.
func deviceRow(st *weir.HostStatus, policies []Policy) Device {
	d := Device{Name: st.Device, Policy: st.Policy, Policies: policies, Memory: int64(st.Memory),
		Promised: int64(st.Promised), Held: int64(st.Held), Faults: st.Faults}
	if st.Fault != nil {
		d.Fault = st.Fault.Error()
	}
	return d
}

// round keeps as many decimals as are shown, so that what looks equal is no change.
func round(v float64, decimals int) float64 {
	scale := math.Pow10(decimals)
	return math.Round(v*scale) / scale
}

// encode is the JSON of a row.
func encode(row any) json.RawMessage {
	b, err := json.Marshal(row)
	if err != nil {
		panic(err) // rows are this package's own, and have no NaN
	}
	return b
}
