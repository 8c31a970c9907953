package page

// Table is a table of texts, a row an object.
type Table struct {
	Caption string
	Quiet   bool     // the caption repeats what stands above: it is only read out
	Heads   []string // of the name of a row, and of its cells
	Left    int      // how many columns after the name hold words
	Rows    []Row
}

// Row is a row of a table.
type Row struct {
	Name  string
	Cells []string // as many as the table has heads, less one
	Bad   string   // in place of the cells: why there are none
}

// shown returns the table without the columns in which no row says anything.
func (t Table) shown() Table {
	said := t.said()
	out := t
	out.Heads, out.Rows = nil, make([]Row, len(t.Rows))
	for i, head := range t.Heads {
		if said[i] {
			out.Heads = append(out.Heads, head)
		} else if i <= t.Left {
			out.Left--
		}
	}
	for n, r := range t.Rows {
		out.Rows[n] = Row{Name: r.Name, Bad: r.Bad}
		for i, c := range r.Cells {
			if said[i+1] {
				out.Rows[n].Cells = append(out.Rows[n].Cells, c)
			}
		}
	}
	return out
}

// said tells of each column whether it says anything.
func (t Table) said() []bool {
	said := make([]bool, len(t.Heads))
	said[0] = true
	for _, r := range t.Rows {
		for i, c := range r.Cells {
			said[i+1] = said[i+1] || c != ""
		}
	}
	return said
}
