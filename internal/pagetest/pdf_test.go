package pagetest

import (
	"bytes"
	"compress/zlib"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
)

// What follows reads PDF files as Chromium's printer (Skia) writes them, and no others: objects
// that are not packed into streams, content streams that are deflated once, and text as glyphs of
// fonts with a table of what they mean (ISO 32000-1, 7.3, 8.4, 9.4 and 9.10.3).

// sheet is a page as it was printed.
type sheet struct {
	text     strings.Builder // without spaces, in the order in which it was drawn
	problems []string
}

// printer follows the operators of a page's content.
type printer struct {
	*sheet
	fonts map[string]*font
	state
	saved      []state
	line, at   matrix // of text: of its line, and of the next glyph
	path       []point
	edge       box // what the page's margins leave: the first that is drawn is its background
	clipping   bool
	shortest   float64 // the size of text that is too small to read
	foundSmall bool
}

// state is what q saves and Q restores.
type state struct {
	now   matrix
	clip  box
	font  *font
	size  float64
	paper bool // what is drawn has the colour of paper, as the outlines of labels
}

type font struct {
	bytes  int // of a glyph's code
	text   map[int]string
	widths map[int]float64 // in thousandths of the size, where they are known
}

type (
	point  struct{ x, y float64 }
	box    struct{ left, bottom, right, top float64 }
	matrix [6]float64
)

func (m matrix) times(n matrix) matrix {
	return matrix{m[0]*n[0] + m[1]*n[2], m[0]*n[1] + m[1]*n[3], m[2]*n[0] + m[3]*n[2],
		m[2]*n[1] + m[3]*n[3], m[4]*n[0] + m[5]*n[2] + n[4], m[4]*n[1] + m[5]*n[3] + n[5]}
}

func (m matrix) apply(x, y float64) point {
	return point{x*m[0] + y*m[2] + m[4], x*m[1] + y*m[3] + m[5]}
}

// holds reports whether a point lies within, but for the rounding of a printer.
func (b box) holds(p point) bool {
	const slack = 0.75 // points: a pixel of the page
	return p.x > b.left-slack && p.x < b.right+slack && p.y > b.bottom-slack && p.y < b.top+slack
}

func around(points []point) box {
	b := box{math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)}
	for _, p := range points {
		b = box{min(b.left, p.x), min(b.bottom, p.y), max(b.right, p.x), max(b.top, p.y)}
	}
	return b
}

var (
	objects   = regexp.MustCompile(`(?s)(\d+) 0 obj\n(.*?)\nendobj`)
	mediaBox  = regexp.MustCompile(`/MediaBox \[0 0 (\S+) ([^\]]+)\]`)
	reference = regexp.MustCompile(`/(\w+) \[?(\d+) 0 R`)
	fontTable = regexp.MustCompile(`(?s)/Font <<(.*?)>>`)
	widthRuns = regexp.MustCompile(`(?s)(\d+) \[([^\]]*)\]`)
	codeSpace = regexp.MustCompile(`begincodespacerange\n<([0-9A-F]+)>`)
	sections  = regexp.MustCompile(`(?s)beginbf(char|range)\n(.*?)endbf`)
	tokens    = regexp.MustCompile(`<<|>>|<[0-9A-Fa-f]*>|\((?:[^\\()]|\\.)*\)|[\[\]]|/?[^\s<>\[\]()/]+`)
)

// ligatures are letters that fonts draw as one, and say so by a character of its own.
var ligatures = strings.NewReplacer("ﬀ", "ff", "ﬁ", "fi", "ﬂ", "fl", "ﬃ", "ffi", "ﬄ", "ffl")

// file is a PDF file by the numbers of its objects.
type file map[string]string

// stream returns the content of an object that has one.
func (f file) stream(number string) (string, error) {
	_, packed, found := strings.Cut(f[number], ">> stream\n")
	if !found {
		return "", fmt.Errorf("object %s has no content", number)
	}
	r, err := zlib.NewReader(strings.NewReader(packed))
	if err != nil {
		return "", fmt.Errorf("object %s: %w", number, err)
	}
	text, err := io.ReadAll(r)
	return string(text), err
}

// readSheets returns the pages of a file. Text smaller than shortest, in points, is a problem.
func readSheets(data []byte, shortest float64) ([]*sheet, error) {
	if !bytes.HasPrefix(data, []byte("%PDF-1.4\n")) {
		return nil, errors.New("not a PDF file of version 1.4")
	}
	f := file{}
	var order []string
	for _, m := range objects.FindAllStringSubmatch(string(data), -1) {
		f[m[1]] = m[2]
		if strings.HasPrefix(m[2], "<</Type /Page\n") {
			order = append(order, m[1])
		}
	}
	fonts := map[string]*font{}
	var sheets []*sheet
	for _, number := range order {
		paper := mediaBox.FindStringSubmatch(f[number])
		if paper == nil {
			return nil, fmt.Errorf("page %d has no size", len(sheets)+1)
		}
		width, _ := strconv.ParseFloat(paper[1], 64)
		height, _ := strconv.ParseFloat(paper[2], 64)
		p := &printer{sheet: &sheet{}, fonts: map[string]*font{}, shortest: shortest}
		p.now, p.clip = matrix{1, 0, 0, 1, 0, 0}, box{0, 0, width, height}
		if table := fontTable.FindStringSubmatch(f[number]); table != nil {
			for _, r := range reference.FindAllStringSubmatch(table[1], -1) {
				if fonts[r[2]] == nil {
					got, err := f.font(r[2])
					if err != nil {
						return nil, err
					}
					fonts[r[2]] = got
				}
				p.fonts[r[1]] = fonts[r[2]]
			}
		}
		content, err := f.stream(f.refers(number, "Contents"))
		if err != nil {
			return nil, err
		}
		if err := p.draw(content); err != nil {
			return nil, fmt.Errorf("page %d: %w", len(sheets)+1, err)
		}
		sheets = append(sheets, p.sheet)
	}
	return sheets, nil
}

// refers returns the number of the object that an entry of another refers to, "" for none.
func (f file) refers(number, entry string) string {
	for _, r := range reference.FindAllStringSubmatch(f[number], -1) {
		if r[1] == entry {
			return r[2]
		}
	}
	return ""
}

// font reads what the codes of a font mean, and how wide its glyphs are.
func (f file) font(number string) (*font, error) {
	meanings, err := f.stream(f.refers(number, "ToUnicode"))
	if err != nil {
		return nil, fmt.Errorf("font %s: %w", number, err)
	}
	space := codeSpace.FindStringSubmatch(meanings)
	if space == nil {
		return nil, fmt.Errorf("font %s: no space of codes", number)
	}
	got := &font{len(space[1]) / 2, map[int]string{}, map[int]float64{}}
	for _, s := range sections.FindAllStringSubmatch(meanings, -1) {
		for line := range strings.Lines(s[2]) {
			w := strings.Fields(strings.NewReplacer("<", "", ">", "").Replace(line))
			first, last, units := code(w[0]), code(w[0]), units(w[len(w)-1])
			if s[1] == "range" {
				last = code(w[1])
			}
			for c := first; c <= last; c++ {
				got.text[c] = string(utf16.Decode(units))
				units[len(units)-1]++
			}
		}
	}
	_, runs, _ := strings.Cut(f[f.refers(number, "DescendantFonts")], "/W [")
	for _, run := range widthRuns.FindAllStringSubmatch(runs, -1) {
		first, _ := strconv.Atoi(run[1])
		for i, w := range strings.Fields(run[2]) {
			got.widths[first+i], _ = strconv.ParseFloat(w, 64)
		}
	}
	return got, nil
}

func code(digits string) int {
	n, _ := strconv.ParseInt(digits, 16, 32)
	return int(n)
}

func units(digits string) []uint16 {
	raw, _ := hex.DecodeString(digits)
	out := make([]uint16, len(raw)/2)
	for i := range out {
		out[i] = uint16(raw[2*i])<<8 | uint16(raw[2*i+1])
	}
	return out
}

// draw follows a page's content.
func (p *printer) draw(content string) error {
	var before []string
	for _, token := range tokens.FindAllString(content, -1) {
		if c := token[0]; c >= '0' && c <= '9' || strings.IndexByte("+-./<>[(]", c) >= 0 {
			before = append(before, token)
			continue
		}
		if err := p.do(token, before); err != nil {
			return err
		}
		before = before[:0]
	}
	return nil
}

// do does one operator. It leaves out those that set colours, lines and marks.
func (p *printer) do(operator string, operands []string) error {
	var v matrix
	for i := range min(len(operands), len(v)) {
		v[i], _ = strconv.ParseFloat(operands[i], 64)
	}
	switch operator {
	case "q":
		p.saved = append(p.saved, p.state)
	case "Q":
		p.state, p.saved = p.saved[len(p.saved)-1], p.saved[:len(p.saved)-1]
	case "cm":
		p.now = v.times(p.now)
	case "BT":
		p.line = matrix{1, 0, 0, 1, 0, 0}
		p.at = p.line
	case "Tf":
		p.font = p.fonts[operands[0][1:]]
		p.size = v[1]
		if p.font == nil {
			return fmt.Errorf("no font %s", operands[0])
		}
	case "Tm":
		p.line, p.at = v, v
	case "Td":
		p.line = matrix{1, 0, 0, 1, v[0], v[1]}.times(p.line)
		p.at = p.line
	case "Tj":
		return p.show(operands[0])
	case "rg":
		p.paper = v[0] == 1 && v[1] == 1 && v[2] == 1
	case "TJ", "T*", "'", `"`, "Tc", "Tw", "Tz", "TL", "Ts":
		return fmt.Errorf("text is set by %s, which is not read", operator)
	default:
		p.shape(operator, v, len(operands))
	}
	return nil
}

// shape does the operators of paths.
func (p *printer) shape(operator string, v matrix, n int) {
	switch operator {
	case "m", "l", "c", "v", "y":
		for i := 0; i+1 < n; i += 2 {
			p.path = append(p.path, p.now.apply(v[i], v[i+1]))
		}
	case "re":
		p.path = append(p.path, p.now.apply(v[0], v[1]), p.now.apply(v[0]+v[2], v[1]+v[3]))
	case "W", "W*":
		p.clipping = true
	case "n", "f", "f*", "F", "S", "s", "B", "B*", "b", "b*":
		b := around(p.path)
		if p.edge == (box{}) {
			p.edge = b
		}
		if p.clipping {
			c := p.clip
			p.clip = box{max(b.left, c.left), max(b.bottom, c.bottom), min(b.right, c.right),
				min(b.top, c.top)}
		} else if len(p.path) > 0 && (b.left < p.edge.left-1 || b.right > p.edge.right+1) {
			p.problems = append(p.problems, fmt.Sprintf("drawn from %.0f to %.0f pt, outside of "+
				"the margins at %.0f and %.0f", b.left, b.right, p.edge.left, p.edge.right))
		}
		p.path, p.clipping = p.path[:0], false
	}
}

// show draws glyphs, each of which is to lie within what is not clipped.
func (p *printer) show(codes string) error {
	digits := strings.Trim(codes, "<>")
	if codes[0] != '<' {
		return fmt.Errorf("text %s is not in hexadecimal", codes)
	}
	for ; digits != ""; digits = digits[2*p.font.bytes:] {
		if len(digits) < 2*p.font.bytes {
			return fmt.Errorf("half a code in %s", codes)
		}
		c := code(digits[:2*p.font.bytes])
		wide := p.font.widths[c] / 1000 * p.size
		text := ligatures.Replace(strings.TrimSpace(p.font.text[c]))
		to := p.at.times(p.now)
		const tall = 0.7 // of the size: a capital letter
		foot, head := to.apply(0, 0), to.apply(wide, tall*p.size)
		if text != "" && !p.paper {
			if !p.clip.holds(foot) || !p.clip.holds(head) {
				p.problems = append(p.problems, fmt.Sprintf("%q behind %q is cut off: it lies "+
					"from %.1f to %.1f pt, of %.1f to %.1f that are seen", text, p.tail(), foot,
					head, point{p.clip.left, p.clip.bottom}, point{p.clip.right, p.clip.top}))
			}
			if size := p.size * math.Hypot(to[2], to[3]); size < p.shortest && !p.foundSmall {
				p.foundSmall = true
				p.problems = append(p.problems, fmt.Sprintf("text of %.1f pt behind %q", size,
					p.tail()))
			}
			p.text.WriteString(text)
		}
		p.at = matrix{1, 0, 0, 1, wide, 0}.times(p.at)
	}
	return nil
}

// tail is the end of what was drawn.
func (p *printer) tail() string {
	s := []rune(p.text.String())
	return string(s[max(0, len(s)-20):])
}
