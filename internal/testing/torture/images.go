package torture

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Image is a hostile or very large image file.
type Image struct {
	Name   string
	Encode func() []byte
}

// Images lists the files. All are small, but they ask for much.
func Images() []Image {
	var out []Image
	add := func(name string, encode func() []byte) { out = append(out, Image{name, encode}) }
	for name, p := range jpegs() {
		add("jpeg: "+name, p.encode)
	}
	for name, p := range pngs() {
		add("png: "+name, p.encode)
	}
	for name, p := range webps() {
		add("webp: "+name, p.encode)
	}
	for name, encode := range wrapped() {
		add(name, encode)
	}
	for name, encode := range furtherImages() {
		add(name, encode)
	}
	add("webp: noise, 16 megapixels", func() []byte {
		r := rand.New(rand.NewPCG(1, 2))
		return lossy(4000, 4000, 15<<20, func() byte { return byte(r.Uint32()) })
	})
	for _, cut := range []bool{false, true} {
		name := map[bool]string{false: "", true: ", no end"}[cut]
		add("jpeg: all coefficients of 64 megapixels"+name, func() []byte { return dense(8000, 8000, cut) })
	}
	slices.SortFunc(out, func(a, b Image) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func jpegs() map[string]progressive {
	const side = 8000
	return map[string]progressive{
		"100 scans of 64 megapixels, grey":   {w: side, h: side, components: 1, sampling: 0x11, scans: 99},
		"10 scans of 64 megapixels, grey":    {w: side, h: side, components: 1, sampling: 0x11, scans: 9},
		"10 scans of 64 megapixels":          {w: side, h: side, components: 3, sampling: 0x11, scans: 9},
		"10 scans of 64 megapixels, 4:2:0":   {w: side, h: side, components: 3, sampling: 0x22, scans: 9},
		"10 scans of 64 megapixels, no end":  {w: side, h: side, components: 3, sampling: 0x22, scans: 9, cut: true},
		"10 scans of 16 megapixels, no end":  {w: 4000, h: 4000, components: 3, sampling: 0x22, scans: 9, cut: true},
		"100 scans of 4 megapixels, no end":  {w: 2000, h: 2000, components: 3, sampling: 0x11, scans: 99, cut: true},
		"10 scans of 16 megapixels, 4:4:4":   {w: 4000, h: 4000, components: 3, sampling: 0x11, scans: 9},
		"10 scans of a strip":                {w: 47_000, h: 890, components: 1, sampling: 0x11, scans: 9},
		"10 scans of 64 megapixels, CMYK":    {w: side, h: side, components: 4, sampling: 0x11, scans: 9},
		"10 scans of 16 megapixels, CMYK":    {w: 4000, h: 4000, components: 4, sampling: 0x11, scans: 9},
		"450 scans behind FF 01":             {w: 4000, h: 4000, components: 1, sampling: 0x11, scans: 450, tem: true},
		"5,000 scans behind FF 01":           {w: 8000, h: 8000, components: 1, sampling: 0x11, scans: 5000, tem: true},
		"14 refining scans of 64 megapixels": {w: side, h: side, components: 1, sampling: 0x11, scans: 14, refine: true},
		"42 refining scans of 64 megapixels": {w: side, h: side, components: 3, sampling: 0x11, scans: 42, refine: true},
		"90 refining scans of 16 megapixels": {w: 4000, h: 4000, components: 1, sampling: 0x11, scans: 90, refine: true},
		"90 refining scans of 64 megapixels": {w: side, h: side, components: 1, sampling: 0x11, scans: 90, refine: true},
		"100 scans of 65,000 x 8":            {w: 65_000, h: 8, components: 3, sampling: 0x11, scans: 99},
	}
}

func pngs() map[string]bomb {
	const side = 8000
	return map[string]bomb{
		"64 megapixels, 16-bit RGBA":             {w: side, h: side, depth: 16, colour: 6, filter: 4},
		"64 megapixels, 16-bit RGBA, interlaced": {w: side, h: side, depth: 16, colour: 6, filter: 4, interlaced: true},
		"64 megapixels, RGB":                     {w: side, h: side, depth: 8, colour: 2, filter: 4},
		"64 megapixels, RGBA":                    {w: side, h: side, depth: 8, colour: 6, filter: 4},
		"64 megapixels, 1-bit palette":           {w: side, h: side, depth: 1, colour: 3},
		"36 megapixels, 16-bit RGBA":             {w: 6000, h: 6000, depth: 16, colour: 6, filter: 4},
		"36 megapixels, RGB":                     {w: 6000, h: 6000, depth: 8, colour: 2, filter: 4},
		"16 megapixels, 16-bit RGBA, interlaced": {w: 4000, h: 4000, depth: 16, colour: 6, filter: 4, interlaced: true},
		"64,000,000 x 1, 16-bit RGBA":            {w: 64_000_000, h: 1, depth: 16, colour: 6},
		"1 x 64,000,000":                         {w: 1, h: 64_000_000, depth: 8, colour: 0},
		"60,000 x 900, grey":                     {w: 60_000, h: 900, depth: 8, colour: 0, filter: 4},
		"40 megapixels, RGBA":                    {w: 8000, h: 5000, depth: 8, colour: 6, filter: 4},
		"a million empty blocks":                 {w: 2000, h: 2000, depth: 8, colour: 6, blocks: 19 << 20},
		"36 megapixels, RGB, cut":                {w: 6000, h: 6000, depth: 8, colour: 2, cut: 30},
	}
}

func webps() map[string]lossless {
	return map[string]lossless{
		"64 megapixels":                 {w: 16_000, h: 4000},
		"64 megapixels, all transforms": {w: 16_000, h: 4000, transforms: []int{0, 1, 2}},
		"16 megapixels, all transforms": {w: 4000, h: 4000, transforms: []int{0, 1, 2}},
		"65,536 groups of codes":        {w: 4000, h: 4000, groups: true},
		"65,536 groups of codes, small": {w: 64, h: 64, groups: true},
		"65,536 groups, 64 megapixels":  {w: 16_000, h: 4000, groups: true},
	}
}

// ManyLarge lists progressive pictures of 16 megapixels, to be decoded one after another. Each has another size.
func ManyLarge() []Image {
	var out []Image
	for i := range 24 {
		p := progressive{w: 4000, h: 4000 - i, components: 3, sampling: []byte{0x22, 0x11}[i%2], scans: 9}
		out = append(out, Image{fmt.Sprintf("jpeg: number %d of many with 16 megapixels", i), p.encode})
	}
	return out
}
