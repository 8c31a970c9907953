package main

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/weirgpu/weir/conformance/archive"
)

func TestOperatorsPageIsCurrent(t *testing.T) {
	dir, err := archive.BackendTests()
	if errors.Is(err, archive.ErrNoData) {
		t.Skip(archive.NoData)
	}
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := write(&want, "../..", dir); err != nil {
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
