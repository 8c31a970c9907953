package training_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/internal/fulldisk"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/training"
)

// TestFullDisk: a training that waits for room for its checkpoint has nobody else wait for the
// device, says for what it waits, and stops once there is room, with nothing lost.
func TestFullDisk(t *testing.T) {
	path := folder(t, whole)
	want := alone(t, path)
	if fulldisk.Elsewhere(t) {
		return
	}
	name := filepath.Base(filepath.Dir(path))
	p := begin(t, server.Options{}, path)
	url := "/v1/train/" + name
	p.until(t, name, func(s training.State) bool { return s.Update >= 20 })
	room := fulldisk.Full(t, 1000)
	if code := p.ask(t, "POST", url+"/stop", "", nil); code != 200 {
		t.Errorf("stopped: %d", code)
	}
	p.until(t, name, func(s training.State) bool {
		return strings.Contains(s.Reason, "checkpoint")
	})
	asked := time.Now()
	for range 20 {
		p.infer(t)
	}
	if took := time.Since(asked); took > 10*time.Second {
		t.Errorf("20 requests take %v while there is no room for a checkpoint", took)
	}
	room()
	at := p.until(t, name, in(training.Stopped)).Update
	if code := p.ask(t, "POST", url+"/continue", "", nil); code != 200 {
		t.Errorf("continued: %d", code)
	}
	if s := p.until(t, name, in(training.Done)); s.Digest != want || at < 20 {
		t.Errorf("stopped after update %d: digest %s, want %s", at, s.Digest, want)
	}
}

// TestFullDiskRecalled: a model does not wait for ever for the memory of a training whose
// checkpoint has no room; the training says what it has lost, and comes to the same digest.
func TestFullDiskRecalled(t *testing.T) {
	path := folder(t, whole)
	want := alone(t, path)
	if fulldisk.Elsewhere(t) {
		return
	}
	name := filepath.Base(filepath.Dir(path))
	before := begin(t, server.Options{})
	model, need := before.Status().Promised, needs(t, before, path)
	before.end(t)
	p := begin(t, server.Options{Host: weir.HostOptions{Memory: model + need}}, path)
	p.until(t, name, func(s training.State) bool { return s.Update >= 20 })
	room := fulldisk.Full(t, 1000)
	if err := p.LoadAll(t.Context(), []server.Source{digitsOf("more")}); err != nil {
		t.Fatal(err)
	}
	p.until(t, name, func(s training.State) bool { return s.Phase == training.Waiting })
	room()
	if err := p.UnloadModel(t.Context(), "more", nil); err != nil {
		t.Fatal(err)
	}
	if s := p.until(t, name, in(training.Done)); s.Digest != want {
		t.Errorf("digest %s, want %s", s.Digest, want)
	}
}
