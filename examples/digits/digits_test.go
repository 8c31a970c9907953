package digits

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

func TestFilesAgree(t *testing.T) {
	images, err := Images()
	if err != nil {
		t.Fatal(err)
	}
	labels, err := Labels()
	if err != nil {
		t.Fatal(err)
	}
	heldOut, err := HeldOut()
	if err != nil {
		t.Fatal(err)
	}
	if len(images) != 1797 || len(labels) != 1797 || len(heldOut) != 360 {
		t.Fatalf("%d images, %d labels, %d held out; want 1797, 1797, 360", len(images),
			len(labels), len(heldOut))
	}
	for i := range images {
		if darkest := slices.Max(images[i][:]); darkest == 0 || darkest > Ink {
			t.Errorf("image %d: darkest pixel %d, want 1 to %d", i, darkest, Ink)
		}
		if labels[i] >= Classes {
			t.Errorf("image %d: label %d", i, labels[i])
		}
	}
	var perClass [Classes]int
	for k, i := range heldOut {
		if i < 0 || i >= len(images) || (k > 0 && heldOut[k-1] >= i) {
			t.Fatalf("held-out index %d at %d: out of range or out of order", i, k)
		}
		perClass[labels[i]]++
	}
	for class, n := range perClass {
		if n < 35 || n > 37 {
			t.Errorf("%d held-out images of digit %d, want 35 to 37", n, class)
		}
	}
}

// The first row of the data set, as UCI publishes it, is a zero.
func TestFirstImage(t *testing.T) {
	images, err := Images()
	if err != nil {
		t.Fatal(err)
	}
	want := Image{
		0, 0, 5, 13, 9, 1, 0, 0, 0, 0, 13, 15, 10, 15, 5, 0, 0, 3, 15, 2, 0, 11, 8, 0, 0, 4, 12, 0,
		0, 8, 8, 0, 0, 5, 8, 0, 0, 9, 8, 0, 0, 4, 11, 0, 1, 12, 7, 0, 0, 2, 14, 5, 10, 12, 0, 0, 0,
		0, 6, 13, 10, 0, 0, 0,
	}
	if images[0] != want {
		t.Errorf("first image %v, want %v", images[0], want)
	}
	input := Input(images[0], images[1])
	if len(input) != 2*Side*Side || input[2] != 5.0/16 || input[3] != 13.0/16 {
		t.Errorf("Input: %d values starting %v", len(input), input[:4])
	}
}

func TestSize(t *testing.T) {
	total := len(Model) + len(imagesFile) + len(labelsFile) + len(heldOutFile)
	if total >= 1<<20 {
		t.Errorf("embedded files take %d bytes, want less than 1 MiB", total)
	}
	if len(Model) == 0 {
		t.Error("no model")
	}
}

func TestReadNPYRefuses(t *testing.T) {
	edit := func(from, to string) []byte {
		return bytes.Replace(heldOutFile, []byte(from), []byte(to), 1)
	}
	tests := []struct {
		name string
		file []byte
	}{
		{"empty", nil},
		{"magic only", heldOutFile[:8]},
		{"header cut", heldOutFile[:40]},
		{"data cut", heldOutFile[:len(heldOutFile)-1]},
		{"data added", append(bytes.Clone(heldOutFile), 0)},
		{"other version", edit("\x01\x00", "\x02\x00")},
		{"other type", edit("<i4", ">i4")},
		{"column order", edit("False", "True ")},
		{"shape too large", edit("(360,)", "(9e9,)")},
		{"shape overflows", edit("(360,), }           ", "(4294967296,4294967296), }")},
		{"not a header", edit("{'descr'", "['descr'")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if bytes.Equal(test.file, heldOutFile) {
				t.Fatal("the edit changed nothing")
			}
			if _, _, err := readNPY(test.file, "<i4", 4); !errors.Is(err, ErrFormat) {
				t.Errorf("error %v, want ErrFormat", err)
			}
		})
	}
}

func FuzzReadNPY(f *testing.F) {
	f.Add(labelsFile)
	f.Add(heldOutFile[:200])
	f.Add([]byte(npyMagic + "\x00\x00"))
	f.Fuzz(func(t *testing.T, file []byte) {
		data, shape, err := readNPY(file, "|u1", 1)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Errorf("error %v, want ErrFormat", err)
			}
			return
		}
		elements := 1
		for _, n := range shape {
			elements *= n
		}
		if elements != len(data) {
			t.Errorf("shape %v with %d bytes", shape, len(data))
		}
	})
}
