package imaging

// stripRows is the number of rows that are filtered across at once.
const stripRows = 16

// resampleWide filters v into out, sixteen rows at once. Four neighbours of a row, and then of a column, lie side by
// side, for an instruction that adds up the products of four bytes.
func resampleWide(out *Image, v view, cols, rows kernel) {
	left, width := cols.first[0], cols.span()
	first, height := rows.first[0], rows.span()
	const pixels = 20 // that interleave reads at once
	strip := rooms.take((width+pixels-1)/pixels*pixels*3*stripRows + 64)
	defer rooms.Put(strip)
	// A word of four rows for each byte of a row. Both filters read and write some bytes beyond the last.
	stride := (3*out.W/64 + 1) * 256
	filtered := rooms.take((height + stripRows - 1) / stripRows * (stripRows / 4) * stride)
	defer rooms.Put(filtered)
	for y := 0; y < height; y += stripRows {
		var lines [stripRows]*byte
		for i := range lines {
			at := (first+min(y+i, height-1))*v.stride + 3*left // weights of what is repeated are zero
			lines[i] = &v.pix[at : at+3*width][0]
		}
		interleave(&(*strip)[0], &lines, 3*width)
		filterAcross(&(*filtered)[y/4*stride], stride, &(*strip)[0], &cols.fours[0], &cols.digits[0], out.W, cols.depth)
	}
	for y := range out.H {
		row := out.Pix[3*y*out.W : 3*(y+1)*out.W]
		filterDown(&row[0], &(*filtered)[rows.fours[y]*stride], stride, &rows.digits[12*y*rows.depth], len(row), rows.depth)
	}
}

// interleave writes 16 rows of n bytes to dst: for every four pixels the reds of all rows, then the greens, then the
// blues, 64 bytes each. It writes whole groups of 20 pixels, and 64 bytes more. It needs AVX-512 with VBMI, as the next
// ones do with VNNI.
//
//go:noescape
func interleave(dst *byte, rows *[stripRows]*byte, n int)

// filterAcross writes n pixels of 16 rows from the output of interleave. Words of four rows are stride bytes apart. It
// writes 4 bytes beyond the last pixel.
//
//go:noescape
func filterAcross(dst *byte, stride int, src *byte, fours *int, digits *int8, n, depth int)

// filterDown writes n bytes of a row from the output of filterAcross, reading whole groups of 64 words.
//
//go:noescape
func filterDown(dst, src *byte, stride int, digits *int8, n, depth int)

// wideGroup is the number of pixels that separate and lookUp take at once.
const wideGroup = 64

// separateVector writes the first reds of the pixels, then greens, then blues into the three equal parts of dst, and
// returns how many.
func separateVector(dst, pix []byte) int {
	plane := len(dst) / 3
	groups := plane / wideGroup
	if !hasWide || groups == 0 {
		return 0
	}
	pix = pix[:len(dst)]
	separate(&dst[0], &dst[plane], &dst[2*plane], &pix[0], groups)
	return groups * wideGroup
}

// intoVector writes the values of the first pixels, channel by channel, and returns how many.
func (t *tables) intoVector(dst []float32, pix []byte) int {
	room := rooms.take(len(dst))
	defer rooms.Put(room)
	n := separateVector(*room, pix)
	if n == 0 {
		return 0
	}
	plane := len(dst) / 3
	for c := range t.bytes {
		lookUp(&dst[c*plane], &(*room)[c*plane], &t.bytes[c], n/wideGroup)
	}
	return n
}

// separate writes the colours of groups of 64 pixels.
//
//go:noescape
func separate(red, green, blue, pixels *byte, groups int)

// lookUp writes the values of groups of 64 bytes. The tables have the bytes of each value, the lowest first.
//
//go:noescape
func lookUp(dst *float32, src *byte, bytes *[4][256]byte, groups int)
