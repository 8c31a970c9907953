package main

import (
	"math/rand/v2"
	"time"
)

// stopResult is what stops cost.
type stopResult struct {
	Stops    int            `json:"stops"`
	Answered uint64         `json:"answered"`          // by the servers
	Received int            `json:"received"`          // by the clients
	Lost     int64          `json:"lost"`              // answered and not received
	Late     int            `json:"late"`              // stops with requests that were not answered
	Refused  map[string]int `json:"refused,omitempty"` // requests that came too late, by kind
}

func (r *stopResult) ok() bool { return r.Lost == 0 && r.Late == 0 }

// stops begins servers and stops each under load.
func stops(n, clients int, over string) (*stopResult, error) {
	r := &stopResult{Refused: map[string]int{}}
	for range n {
		x, err := open(nil, over, source(1))
		if err != nil {
			return nil, err
		}
		l := x.load(clients)
		time.Sleep(20*time.Millisecond + rand.N(20*time.Millisecond))
		if x.close() != nil {
			r.Late++
		}
		l.end()
		x.hangUp()
		all, failed := x.server.Recorder().Answered("digits")
		r.Stops, r.Answered, r.Received = r.Stops+1, r.Answered+all-failed, r.Received+len(l.took)
		r.Lost += int64(all-failed) - int64(len(l.took))
		for kind, n := range l.errors {
			r.Refused[kind] += n
		}
		if err := x.server.Close(); err != nil {
			return nil, err
		}
	}
	return r, nil
}
