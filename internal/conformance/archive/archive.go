package archive

import (
	"archive/tar"
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/ulikunitz/xz"
)

var (
	// ErrNoData says that the data is not on this machine. Tests that need it fail, since they
	// would otherwise pass and have tested nothing.
	ErrNoData = errors.New("no ONNX test data")
	// ErrOff says that WEIR_ONNX_TESTDATA is "off": the data is to be done without. Tests that need
	// it skip.
	ErrOff = errors.New("ONNX's test data is switched off")
)

// MaxBytes bounds what [Unpack] writes.
const MaxBytes = 1 << 31

const (
	variable = "WEIR_ONNX_TESTDATA"
	off      = "off" // value of it
	file     = "onnx-backend-tests.tar.xz"
)

// BackendTests returns a folder that holds node/, light/, simple/ and the other kinds of the ONNX
// project's backend tests, which must not be written to. It fails with [ErrNoData] when they are
// not on this machine, and with [ErrOff].
func BackendTests() (string, error) {
	if os.Getenv(variable) == off {
		return "", ErrOff
	}
	for _, dir := range places() {
		if isDir(filepath.Join(dir, "node")) {
			return dir, nil
		}
		packed := filepath.Join(dir, file)
		if _, err := os.Stat(packed); err == nil {
			return Unpacked(packed)
		}
	}
	return "", fmt.Errorf("%w: set %s to the folder that holds %s, to the one that "+
		"internal/conformance/peer/cases.py prints, or to %q to do without", ErrNoData,
		variable, file, off)
}

// places lists the folders to look in: the one of the environment, else ../shared/data seen from
// the repository's root, which is the nearest folder upwards with a go.mod.
func places() []string {
	if dir := os.Getenv(variable); dir != "" {
		return []string{dir}
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return []string{filepath.Join(dir, "..", "shared", "data")}
		}
		up := filepath.Dir(dir)
		if up == dir {
			return nil
		}
		dir = up
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Unpacked returns the folder in the user's cache that holds what a .tar.xz holds, which must not
// be written to; it unpacks it, as [Unpack] does, unless a folder of its hash is there.
func Unpacked(packed string) (string, error) {
	sum, err := hash(packed)
	if err != nil {
		return "", err
	}
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	base = filepath.Join(base, "weir")
	dir := filepath.Join(base, "onnx-backend-tests-"+sum[:16])
	if isDir(dir) {
		return dir, nil
	}
	return dir, unpackTo(packed, dir)
}

// unpackTo unpacks an archive to a folder of which others may make the same at the same time.
func unpackTo(packed, dir string) error {
	base := filepath.Dir(dir)
	if err := os.MkdirAll(base, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(base, "unpacking-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := Unpack(packed, tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, dir); err != nil && !isDir(dir) {
		return err
	}
	return nil
}

func hash(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Unpack writes the files and folders of a .tar.xz archive into an existing folder.
func Unpack(packed, dir string) error {
	f, err := os.Open(packed)
	if err != nil {
		return err
	}
	defer f.Close()
	x, err := xz.NewReader(bufio.NewReaderSize(f, 1<<20))
	if err != nil {
		return fmt.Errorf("%s: %w", packed, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	left := int64(MaxBytes)
	for r := tar.NewReader(x); ; {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			left -= h.Size
			err = entry(root, h, r, left)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", packed, err)
		}
	}
}

func entry(root *os.Root, h *tar.Header, r io.Reader, left int64) error {
	name := filepath.Clean(filepath.FromSlash(h.Name))
	if !filepath.IsLocal(name) {
		return fmt.Errorf("entry %q leaves the folder", h.Name)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, 0o755)
	case tar.TypeReg:
	default:
		return fmt.Errorf("entry %q is neither file nor folder", h.Name)
	}
	if left < 0 {
		return fmt.Errorf("unpacks to more than %d bytes", int64(MaxBytes))
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}
