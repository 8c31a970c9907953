package digits

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	// Classes is the number of classes, the digits 0 to 9.
	Classes = 10
	// Side is an image's height and width in pixels.
	Side = 8
	// Ink is the darkest pixel value; 0 is paper.
	Ink = 16
	// HeldOutCorrect is the number of held-out images that Model classifies correctly when ONNX
	// Runtime runs it.
	HeldOutCorrect = 359
)

// ErrFormat means that an embedded .npy file is not what this package wrote.
var ErrFormat = errors.New("digits: unexpected .npy file")

// Model is the classifier as an ONNX file (opset 17). Its input "image" is float32 [N,1,8,8] in
// 0..1, its output "probabilities" float32 [N,10]. It must not be modified.
//
//go:embed digits.onnx
var Model []byte

var (
	//go:embed images.npy.gz
	imagesFile []byte
	//go:embed labels.npy
	labelsFile []byte
	//go:embed heldout.npy
	heldOutFile []byte
)

// An Image is one digit, row by row from the top, each pixel in 0..Ink.
type Image [Side * Side]uint8

// Images returns all 1,797 images. The error is ErrFormat if the program was built with other files
// than this package's.
func Images() ([]Image, error) {
	packed, err := gzip.NewReader(bytes.NewReader(imagesFile))
	if err != nil {
		return nil, fmt.Errorf("images.npy.gz: %w: %w", ErrFormat, err)
	}
	file, err := io.ReadAll(packed)
	if err != nil {
		return nil, fmt.Errorf("images.npy.gz: %w: %w", ErrFormat, err)
	}
	data, shape, err := readNPY(file, "|u1", 1)
	if err != nil {
		return nil, fmt.Errorf("images.npy.gz: %w", err)
	}
	if len(shape) != 3 || shape[1] != Side || shape[2] != Side {
		return nil, fmt.Errorf("images.npy.gz: shape %v, want [N %d %d]: %w", shape, Side, Side,
			ErrFormat)
	}
	images := make([]Image, shape[0])
	for i := range images {
		copy(images[i][:], data[i*len(Image{}):])
	}
	return images, nil
}

// Labels returns the digit, 0 to 9, that each image of Images shows. Errors are as for Images.
func Labels() ([]uint8, error) {
	data, shape, err := readNPY(labelsFile, "|u1", 1)
	if err != nil {
		return nil, fmt.Errorf("labels.npy: %w", err)
	}
	if len(shape) != 1 {
		return nil, fmt.Errorf("labels.npy: shape %v, want [N]: %w", shape, ErrFormat)
	}
	return bytes.Clone(data), nil
}

// HeldOut returns the indices into Images, ascending, of the images that training did not see.
// Errors are as for Images.
func HeldOut() ([]int, error) {
	data, shape, err := readNPY(heldOutFile, "<i4", 4)
	if err != nil {
		return nil, fmt.Errorf("heldout.npy: %w", err)
	}
	if len(shape) != 1 {
		return nil, fmt.Errorf("heldout.npy: shape %v, want [N]: %w", shape, ErrFormat)
	}
	indices := make([]int, shape[0])
	for i := range indices {
		indices[i] = int(int32(binary.LittleEndian.Uint32(data[4*i:])))
	}
	return indices, nil
}

// Input returns the images as the model takes them: len(images) x 1 x 8 x 8 float32 values in 0..1,
// in a new slice.
func Input(images ...Image) []float32 {
	values := make([]float32, 0, len(images)*len(Image{}))
	for i := range images {
		for _, pixel := range images[i] {
			values = append(values, float32(pixel)/Ink)
		}
	}
	return values
}
