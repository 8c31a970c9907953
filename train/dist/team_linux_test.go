package dist

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// teams are the processes of a team, in this one.
func teams(t *testing.T, ranks int) (all []*Team) {
	t.Helper()
	links, err := Pipe(ranks)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		team, err := NewTeam(l)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(team.Close)
		all = append(all, team)
	}
	return all
}

// TestMeet: workers that have all in common are taken, one that has not is refused and told why,
// with a name for what differs, also where only one of them has it.
func TestMeet(t *testing.T) {
	for _, c := range []struct {
		worker Hello
		want   string
	}{
		{Hello{"build": "1", "seed": "2"}, ""},
		{Hello{"build": "0", "seed": "2"}, `its build is "0", that of the leader "1"`},
		{Hello{"build": "1"}, `its seed is "", that of the leader "2"`},
		{Hello{"build": "1", "seed": "2", "more": "3"}, `its more is "3", that of the leader ""`},
	} {
		all := teams(t, 3)
		told := make(chan error, 2)
		go func() { told <- all[1].Greet(Hello{"build": "1", "seed": "2"}) }()
		go func() { told <- all[2].Greet(c.worker) }()
		err := all[0].Meet(Hello{"build": "1", "seed": "2"})
		second := errors.Join(<-told, <-told)
		if c.want == "" {
			if err != nil || second != nil {
				t.Errorf("%v is refused: %v, %v", c.worker, err, second)
			}
			continue
		}
		for _, err := range []error{err, second} {
			if !errors.Is(err, ErrPeer) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v: %v, want %q", c.worker, err, c.want)
			}
		}
	}
}

// TestOtherTalk: a process that talks otherwise is of another version, and ends the team.
func TestOtherTalk(t *testing.T) {
	for _, text := range []string{"GET / HTTP/1.1\r\n", `{"hello": 3}`} {
		all := teams(t, 2)
		if _, err := all[1].control[0].conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		err := all[0].Meet(Hello{})
		if !errors.Is(err, ErrPeer) || !strings.Contains(err.Error(), "does not talk as this") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestSilent: a process that gives no sign of life for so many ticks ends the team, and its name is
// told; one that does is not.
func TestSilent(t *testing.T) {
	all := teams(t, 3)
	for r, team := range all {
		if _, err := team.Map(1); err != nil {
			t.Fatal(r, err)
		}
	}
	const silent = 5
	ticks := make(chan time.Time)
	ended := make(chan bool)
	go func() { all[0].Watch(ticks, silent); ended <- true }()
	for range 3 * silent {
		all[1].beat(1).Add(1)
		all[2].beat(2).Add(1)
		ticks <- time.Time{}
	}
	if err := all[0].Failed(); err != nil {
		t.Fatalf("all are alive: %v", err)
	}
	for n := 0; ; n++ {
		all[1].beat(1).Add(1)
		select {
		case ticks <- time.Time{}:
			continue
		case <-ended:
		}
		if n < silent-1 || n > silent+1 {
			t.Errorf("given up after %d ticks, want %d", n, silent)
		}
		break
	}
	err := all[0].Failed()
	if !errors.Is(err, ErrPeer) || !strings.Contains(err.Error(), "worker 2") {
		t.Errorf("worker 2 is silent: %v", err)
	}
	if err := all[1].await(token{1, 0, 0}); !errors.Is(err, ErrPeer) {
		t.Errorf("a worker of a team that has ended: %v", err)
	}
	all[0].Close()
	all[0].Close()
}

// TestOutOfStep: a process that is at another update, bucket or step is an error of both sides'
// places.
func TestOutOfStep(t *testing.T) {
	for _, k := range []token{{8, 2, 1}, {7, 3, 1}, {7, 2, 2}} {
		all := teams(t, 2)
		if err := all[0].pass(k); err != nil {
			t.Fatal(err)
		}
		err := all[1].await(token{7, 2, 1})
		if !errors.Is(err, ErrPeer) || !strings.Contains(err.Error(), "bucket 2") &&
			!strings.Contains(err.Error(), "at 1 of 2 of 7") {
			t.Errorf("%v: %v", k, err)
		}
	}
}

// TestWorkerFails: what a worker says of its failure is the leader's error, with its name.
func TestWorkerFails(t *testing.T) {
	all := teams(t, 2)
	if err := all[1].Answer(Answer{Error: "out of room"}); err != nil {
		t.Fatal(err)
	}
	_, err := all[0].Answers()
	if !errors.Is(err, ErrPeer) || !strings.Contains(err.Error(), "worker 1: out of room") {
		t.Error(err)
	}
}

// TestRanks: a process that was started by nobody has no connections.
func TestRanks(t *testing.T) {
	for _, c := range [][2]int{{0, 2}, {2, 2}, {-1, 2}} {
		if l, err := Inherit(c[0], c[1]); err == nil {
			t.Errorf("rank %d of %d: %v", c[0], c[1], l)
		}
	}
}
