package data

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weirgpu/weir/internal/raster"
	"github.com/weirgpu/weir/internal/sorting"
	"github.com/weirgpu/weir/tensor"
)

// PictureOptions say how pictures become a model's input.
type PictureOptions struct {
	// Mean is what is subtracted from samples, which are from 0 to 1, and Std what they are divided
	// by after that: none, one for all, or one for each channel.
	Mean, Std []float64
	// Cover keeps the proportions of a picture, the middle of which is used; without it pictures
	// are stretched.
	Cover bool
	// Least and Most, where Most is above 0, are the parts of a picture's area between which a part
	// of it is drawn while training, of a width to height of 3/4 to 4/3 (Szegedy et al. 2015,
	// section 6; torchvision.transforms.RandomResizedCrop).
	Least, Most float64
	Seed        uint64
}

// picture is a file.
type picture struct {
	path  string
	class int
	sum   [sha256.Size]byte
}

// Pictures are the image files of a folder that has a folder for each class.
type Pictures struct {
	files                   []picture
	classes                 []string
	channels, height, width int
	o                       PictureOptions
}

// ReadPictures lists the files of a folder, in the order of the classes' and their own names, and
// reads each once, so that none is damaged when training comes to it. shape is that of the model's
// input: samples, 1 or 3 channels, rows and columns. Classes are numbered in the order of their
// names, or as they are given, and there must then be no others. The errors are of kind [ErrData],
// with the file.
func ReadPictures(folder string, shape []int, classes []string, o PictureOptions) (*Pictures,
	error) {
	if len(shape) != 4 || shape[1] != 1 && shape[1] != 3 || shape[2] < 1 || shape[3] < 1 {
		return nil, fmt.Errorf("%s: %w: the model takes %v for a batch: images are samples, 1 or "+
			"3 channels, rows, columns", folder, ErrData, shape)
	}
	for _, list := range [][]float64{o.Mean, o.Std} {
		if n := len(list); n > 1 && n != shape[1] {
			return nil, fmt.Errorf("%s: %w: mean or std of %d channels, the model takes %d", folder,
				ErrData, n, shape[1])
		}
	}
	p := &Pictures{classes: classes, channels: shape[1], height: shape[2], width: shape[3], o: o}
	if err := p.list(folder); err != nil {
		return nil, err
	}
	return p, p.check()
}

// list finds the files.
func (p *Pictures) list(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	given := p.classes != nil
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		if hidden(e.Name()) {
			continue
		}
		if !isFolder(path) {
			return fmt.Errorf("%s: %w: a file beside the folders of classes: move it", path,
				ErrData)
		}
		class := slices.Index(p.classes, e.Name())
		if class < 0 && given {
			return fmt.Errorf("%s: %w: what is trained on has no class %q", path, ErrData, e.Name())
		}
		if class < 0 {
			class, p.classes = len(p.classes), append(p.classes, e.Name())
		}
		if err := p.class(path, class); err != nil {
			return err
		}
	}
	if len(p.files) == 0 {
		return fmt.Errorf("%s: %w: no folder of a class in it", folder, ErrData)
	}
	return nil
}

func hidden(name string) bool { return strings.HasPrefix(name, ".") }

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// class lists the files of a class.
func (p *Pictures) class(folder string, class int) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	before := len(p.files)
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		switch ext := strings.ToLower(filepath.Ext(path)); {
		case hidden(e.Name()):
			continue
		case isFolder(path):
			return fmt.Errorf("%s: %w: a folder within that of a class", path, ErrData)
		case ext != ".png" && ext != ".jpg" && ext != ".jpeg":
			return fmt.Errorf("%s: %w: want .png, .jpg and .jpeg files alone", path, ErrData)
		}
		p.files = append(p.files, picture{path: path, class: class})
	}
	if len(p.files) == before {
		return fmt.Errorf("%s: %w: no image of this class: add some, or remove the folder", folder,
			ErrData)
	}
	return nil
}

// check decodes all files, and keeps what each is known by.
func (p *Pictures) check() error {
	var wrong []error
	var mu sync.Mutex
	each(len(p.files), runtime.GOMAXPROCS(0), func(i int) {
		b, err := os.ReadFile(p.files[i].path)
		if err == nil {
			p.files[i].sum = sha256.Sum256(b)
			_, err = decoded(p.files[i].path, b)
		}
		if err != nil {
			mu.Lock()
			wrong = append(wrong, err)
			mu.Unlock()
		}
	})
	if len(wrong) == 0 {
		return nil
	}
	sorting.By(wrong, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	const some = 5
	if n := len(wrong); n > some {
		wrong = append(wrong[:some], fmt.Errorf("and %d files more", n-some))
	}
	return errors.Join(wrong...)
}

// each calls f of 0 to before n, by so many goroutines.
func each(n, by int, f func(i int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(by, n) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	all.Wait()
}

func decoded(path string, b []byte) (*raster.Image, error) {
	m, err := raster.Decode(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrData, err)
	}
	return m, nil
}

// Samples implements [Source].
func (p *Pictures) Samples() int { return len(p.files) }

// Classes are the names of the classes, which are numbered in this order.
func (p *Pictures) Classes() []string { return p.classes }

// Labels are the classes of the pictures.
func (p *Pictures) Labels() *Column {
	c := &Column{samples: len(p.files), per: 1, divide: 1}
	for i := range p.files {
		c.ints = append(c.ints, int64(p.files[i].class))
	}
	return c
}

// Fill implements [Source]. Half of the processor's cores decode at once, since others compute.
func (p *Pictures) Fill(into *tensor.Tensor, rows []int, epoch int) error {
	if into.DType != tensor.Float32 {
		return fmt.Errorf("%w: images are float32, the model takes %v", ErrData, into.DType)
	}
	v, k := tensor.As[float32](into), per(into, len(rows))
	wrong := make([]error, len(rows))
	each(len(rows), max(1, runtime.GOMAXPROCS(0)/2), func(i int) {
		wrong[i] = p.fill(v[i*k:(i+1)*k], rows[i], epoch)
	})
	return errors.Join(wrong...)
}

// fill writes one picture.
func (p *Pictures) fill(to []float32, row, epoch int) error {
	f := &p.files[row]
	b, err := os.ReadFile(f.path)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrData, err)
	}
	if sha256.Sum256(b) != f.sum {
		return fmt.Errorf("%s: %w: the file was changed while the run goes on", f.path, ErrData)
	}
	m, err := decoded(f.path, b)
	if err != nil {
		return err
	}
	x, y, w, h := p.part(m, row, epoch)
	if w != m.Width || h != m.Height {
		m = m.Part(x, y, w, h)
	}
	p.place(to, m.Scale(p.width, p.height))
	return nil
}

// part is that of a picture that is used.
func (p *Pictures) part(m *raster.Image, row, epoch int) (x, y, w, h int) {
	w, h = m.Width, m.Height
	if p.o.Most > 0 && epoch >= 0 {
		if x, y, dw, dh, ok := p.drawn(m, row, epoch); ok {
			return x, y, dw, dh
		}
	}
	if p.o.Cover {
		if w*p.height > h*p.width {
			w = max(1, (h*p.width+p.height/2)/p.height)
		} else {
			h = max(1, (w*p.height+p.width/2)/p.width)
		}
	}
	return (m.Width - w) / 2, (m.Height - h) / 2, w, h
}

// drawn is a random part, ok where ten draws have one that lies within the picture.
func (p *Pictures) drawn(m *raster.Image, row, epoch int) (x, y, w, h int, ok bool) {
	const stream, tries = 0x726573697a65, 10 // apart from those of changes
	r := rand.New(rand.NewPCG(p.o.Seed^stream, sampleOf(epoch, row)))
	for range tries {
		area := float64(m.Width*m.Height) * (p.o.Least + (p.o.Most-p.o.Least)*r.Float64())
		ratio := math.Exp((2*r.Float64() - 1) * math.Log(4.0/3))
		w = int(math.Round(math.Sqrt(area * ratio)))
		h = int(math.Round(math.Sqrt(area / ratio)))
		if w >= 1 && h >= 1 && w <= m.Width && h <= m.Height {
			return r.IntN(m.Width - w + 1), r.IntN(m.Height - h + 1), w, h, true
		}
	}
	return 0, 0, 0, 0, false
}

// place writes samples, red, green and blue of each pixel, a channel after the other. One channel
// is their luma (ITU-R BT.601).
func (p *Pictures) place(to []float32, samples []float64) {
	n := p.height * p.width
	for c := range p.channels {
		mean, std := raster.OfChannel(p.o.Mean, c, 0), raster.OfChannel(p.o.Std, c, 1)
		for i := range n {
			pixel := samples[3*i:][:3]
			v := pixel[c]
			if p.channels == 1 {
				v = 0.299*pixel[0] + 0.587*pixel[1] + 0.114*pixel[2]
			}
			to[c*n+i] = float32((v/255 - mean) / std)
		}
	}
}

// Digest implements [Source]: files and classes by name, and what is in them.
func (p *Pictures) Digest(h hash.Hash) {
	fmt.Fprintf(h, "%d pictures of %d by %d by %d, %+v\n", len(p.files), p.channels, p.height,
		p.width, p.o)
	for i := range p.files {
		f := &p.files[i]
		fmt.Fprintf(h, "%q %q %x\n", p.classes[f.class], filepath.Base(f.path), f.sum)
	}
}
