package main

import (
	"bytes"
	"os"
	"testing"
)

func TestOperatorsPageIsCurrent(t *testing.T) {
	var want bytes.Buffer
	if err := write(&want, "../.."); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/operators.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Error("docs/operators.md is out of date: go run ./conformance/table > docs/operators.md")
	}
}
