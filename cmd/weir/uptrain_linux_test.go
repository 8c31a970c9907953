package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/server/training"
)

// TestUpTrain: weir up --train follows a recipe beside what it serves, and writes the model.
func TestUpTrain(t *testing.T) {
	recipe := trainFolder(t)
	printed, end := up(t, "--train", recipe)
	line, err := printed.ReadString('\n')
	address, told := strings.CutSuffix(line, " is the page\n")
	if !told {
		t.Fatalf("printed %q (%v)", line, err)
	}
	var l training.List
	for {
		if err := json.Unmarshal([]byte(read(t, address+"v1/train")), &l); err != nil {
			t.Fatal(err)
		}
		if p := l.Trainings[0].Phase; p == training.Done || p == training.Failed {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	s := l.Trainings[0]
	if _, err := os.Stat(s.Model); err != nil || s.Phase != training.Done || s.Update != 40 {
		t.Errorf("%+v, %v", s, err)
	}
	if code := end(); code != 0 {
		t.Errorf("code %d", code)
	}
}
