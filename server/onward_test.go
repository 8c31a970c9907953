package server

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

// counting is counter as a version of its own.
func counting(version int64) Source {
	src := counter
	src.Version, src.Mark = version, fmt.Sprint(version)
	return src
}

// TestSequencesGoOn: a sequence that is under way when its version is replaced or unloaded goes on
// there until it ends, by its last request or for want of them; new ones begin in the new version,
// and what the old one held is given back.
func TestSequencesGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &shelf{}
		from.put("counter", counting(1))
		s := begin(t, Options{Catalogue: from}, counting(1))
		send := func(what string, x int32, id int64, start, end bool, want int32) {
			t.Helper()
			if got, err := count(t.Context(), s, x, id, start, end); got != want || err != nil {
				t.Errorf("%s: %d, %v, want %d", what, got, err, want)
			}
		}
		is := func(what string, want ...string) {
			t.Helper()
			synctest.Wait()
			if got := lines(s); !slices.Equal(got, want) {
				t.Errorf("%s: index %q, want %q", what, got, want)
			}
		}
		send("begun", 5, 7, true, false, 6)
		send("another", 1, 8, true, false, 2)
		send("a third", 1, 9, true, false, 2)
		from.put("counter", counting(2))
		if err := s.LoadModel(t.Context(), "counter", nil); err != nil {
			t.Fatal(err)
		}
		is("replaced", "counter/1 UNLOADING", "counter/2 READY")
		send("in the old version", 3, 7, false, false, 8)
		send("begun anew", 10, 8, true, false, 11)
		send("which goes on there", 10, 8, false, false, 20)
		if _, err := count(t.Context(), s, 1, int64(10), false, false); oip.KindOf(err) !=
			oip.Invalid {
			t.Errorf("one that was never begun: %v", err)
		}
		send("the last", 2, 7, false, true, 17)
		time.Sleep(900 * time.Millisecond)
		send("for want of requests", 0, 9, false, false, 1)
		send("kept", 1, 8, false, false, 21)
		is("one is left", "counter/1 UNLOADING", "counter/2 READY")
		time.Sleep(1100 * time.Millisecond)
		is("all have ended", "counter/2 READY")

		send("of the second version", 1, 7, true, false, 2)
		go func() { // it waits a moment for what is under way
			if err := s.UnloadModel(t.Context(), "counter", nil); err != nil {
				t.Error(err)
			}
		}()
		is("unloaded", "counter/2 UNLOADING")
		if _, err := count(t.Context(), s, 1, int64(7), true, false); oip.KindOf(err) !=
			oip.Unavailable {
			t.Errorf("a new one: %v", err)
		}
		for range 600 { // a client that does not end it
			time.Sleep(500 * time.Millisecond)
			if _, err := count(t.Context(), s, 0, int64(7), false, false); err != nil {
				break
			}
		}
		is("not for ever", "counter/2 UNAVAILABLE: unloaded")
		if held := s.bodies.Load(); held != 0 {
			t.Errorf("%d bytes are held", held)
		}
	})
}

// summing is a version of sum, which adds what came before in the sequence, and more.
func summing(t *testing.T, version int64, more int) Source {
	t.Helper()
	src := configured(t, written("sum", fmt.Sprintf(`graph "sum" {
	  opset "" 13
	  input %%i: float32[N,2]
	  input %%s: float32[N,2]
	  const %%more: float32[1] = {%d}
	  %%t: float32[N,2] = Add@13 (%%i, %%s)
	  %%o: float32[N,2] = Add@13 (%%t, %%more)
	  output %%o
	  output %%t
	}`, more)), `sequence_batching { state { input_name: "s" output_name: "t" `+
		`data_type: TYPE_FP32 dims: [ -1, 2 ] } }`)
	src.Version, src.Mark = version, fmt.Sprint(version)
	return src
}

// TestSequencesGoOnInPipelines: a sequence that is under way in a pipeline goes on in the version
// of its model that has its state when that is replaced; the pipeline's other models and sequences
// that begin have the new versions.
func TestSequencesGoOnInPipelines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &shelf{}
		from.put("sum", summing(t, 1, 0))
		from.put("m", times("m", 3))
		e := made(t, "e", stepText("m", "x", "x", "y", "mid")+stepText("sum", "i", "mid", "o", "y"))
		from.put("e", e)
		s := begin(t, Options{Catalogue: from}, summing(t, 1, 0), times("m", 3), e)
		send := func(what string, id int64, start, end bool, want float32) {
			t.Helper()
			a, err := s.Infer(t.Context(), "e", "", &oip.Request{
				Parameters: oip.Parameters{"sequence_id": id, "sequence_start": start,
					"sequence_end": end},
				Inputs: []oip.Input{{Name: "x", Tensor: tensor.From([]float32{1, 1}, 1, 2)}}})
			if err != nil {
				t.Errorf("%s: %v", what, err)
				return
			}
			defer a.Close()
			if got := tensor.As[float32](a.Outputs[0].Tensor)[0]; got != want {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
		send("begun", 5, true, false, 3)
		from.put("sum", summing(t, 2, 100))
		if err := s.LoadModel(t.Context(), "sum", nil); err != nil {
			t.Fatal(err)
		}
		send("where it was", 5, false, false, 6)
		send("a new one", 6, true, false, 103)
		from.put("m", times("m", 4))
		if err := s.LoadModel(t.Context(), "m", nil); err != nil {
			t.Fatal(err)
		}
		send("by another model before", 5, false, true, 10)
		send("the new one too", 6, false, true, 107)
		synctest.Wait()
		if got := fmt.Sprint(lines(s)); got != "[e/1 READY m/4 READY sum/2 READY]" {
			t.Errorf("once they are over: %s", got)
		}
	})
}

// TestSequencesMakeRoom: versions that are left with sequences end where many of them are, or where
// a model needs their memory.
func TestSequencesMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &shelf{}
		s := begin(t, Options{Catalogue: from}, counting(1))
		for n := range int64(mostLeft + 1) {
			if _, err := count(t.Context(), s, 1, n+1, true, false); err != nil {
				t.Fatal(err)
			}
			from.put("counter", counting(n+2))
			if err := s.LoadModel(t.Context(), "counter", nil); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		left := func() (n int) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.models["counter"].left)
		}
		if n := left(); n != mostLeft {
			t.Errorf("%d versions are left", n)
		}
		if _, err := count(t.Context(), s, 1, int64(1), false, false); oip.KindOf(err) !=
			oip.Invalid {
			t.Errorf("a sequence of the first: %v", err)
		}
		if got, err := count(t.Context(), s, 1, int64(2), false, false); err != nil || got != 2 {
			t.Errorf("a sequence of the second: %d, %v", got, err)
		}
		if !s.makeRoom(t.Context()) || left() != 0 || s.makeRoom(t.Context()) {
			t.Errorf("%d versions are left once memory was short", left())
		}
		if _, err := count(t.Context(), s, 1, int64(2), false, false); oip.KindOf(err) !=
			oip.Invalid {
			t.Errorf("a sequence of what was left: %v", err)
		}
	})
}

// TestGoneIsServedAgain: a model that is back in the folder while its last sequence ends is served,
// whichever comes first.
func TestGoneIsServedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &shelf{}
		from.put("counter", counting(1))
		s := begin(t, Options{Catalogue: from, Fixed: true}, counting(1))
		if _, err := count(t.Context(), s, 1, int64(7), true, false); err != nil {
			t.Fatal(err)
		}
		seen := map[string]string{"counter": "1\n"}
		from.mu.Lock()
		delete(from.has, "counter")
		from.mu.Unlock()
		go func() { // a sequence lasts for a second without requests, as an unload waits
			time.Sleep(linger / 2)
			if _, err := count(t.Context(), s, 1, int64(7), false, false); err != nil {
				t.Error(err)
			}
		}()
		s.follow(t.Context(), seen)
		s.mu.Lock()
		m := s.models["counter"]
		s.mu.Unlock()
		if err := m.take(t.Context()); err != nil { // so that who serves it has to wait
			t.Fatal(err)
		}
		from.put("counter", counting(2))
		followed := make(chan bool)
		go func() {
			s.follow(t.Context(), seen)
			close(followed)
		}()
		synctest.Wait()
		if _, err := count(t.Context(), s, 1, int64(7), false, true); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		<-m.turn
		<-followed
		if got, err := count(t.Context(), s, 4, int64(8), true, true); err != nil || got != 13 {
			t.Errorf("once it is back: %d, %v; index %q", got, err, lines(s))
		}
	})
}

// TestSequencesOfGone: a sequence goes on though its model is gone from the folder, which is then
// forgotten with its last sequence.
func TestSequencesOfGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &shelf{}
		from.put("counter", counting(1))
		s := begin(t, Options{Catalogue: from, Fixed: true}, counting(1))
		go s.Watch(t.Context(), 100*time.Millisecond)
		if _, err := count(t.Context(), s, 1, int64(7), true, false); err != nil {
			t.Fatal(err)
		}
		from.mu.Lock()
		delete(from.has, "counter")
		from.mu.Unlock()
		for i := range int32(4) { // an unload waits a second for what is under way
			time.Sleep(500 * time.Millisecond)
			if got, err := count(t.Context(), s, 1, int64(7), false, false); got != i+2 ||
				err != nil {
				t.Errorf("%d, %v", got, err)
			}
		}
		if got := lines(s); len(got) != 1 {
			t.Errorf("before it is over: %q", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := lines(s); len(got) != 0 {
			t.Errorf("once it is over: %q", got)
		}
	})
}
