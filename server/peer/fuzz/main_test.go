package main

import "testing"

// TestFuzz: a thousand cases leave the server ready, and nothing is its fault.
func TestFuzz(t *testing.T) {
	if err := run(1000, 7); err != nil {
		t.Error(err)
	}
}

// TestVerdict: an answer that is the server's fault, a logged error and memory that stays are
// failures.
func TestVerdict(t *testing.T) {
	at := &target{answers: map[string]int{}}
	stop, err := at.begin()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := at.verdict(0, kept); err != nil {
		t.Error(err)
	}
	if at.verdict(0, kept+1) == nil {
		t.Error("memory may stay")
	}
	at.answered("HTTP 500", true, "x")
	if at.verdict(0, 0) == nil {
		t.Error("a fault passes")
	}
	at.faults = nil
	at.logged.Add(1)
	if at.verdict(0, 0) == nil {
		t.Error("a logged error passes")
	}
}
