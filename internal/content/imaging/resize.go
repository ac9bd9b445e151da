package imaging

import (
	"math"
	"slices"
	"sync"
)

// reducingGap bounds the size of an image before the bicubic filter. A larger one is first reduced by box averages over
// whole factors, to at least reducingGap times the result. At 3 the difference is hardly measurable.
const reducingGap = 3

// view is a rectangle of an image.
type view struct {
	pix    []byte
	stride int
	w, h   int
}

func (im *Image) view(x, y, w, h int) view {
	return view{pix: im.Pix[3*(y*im.W+x):], stride: 3 * im.W, w: w, h: h}
}

func (v view) row(y int, dst []byte) { copy(dst, v.pix[y*v.stride:]) }

// Resize scales the image to w x h pixels with the bicubic filter (a = -0.5), widened when shrinking to avoid aliasing:
// the arithmetic of PIL's BICUBIC with reducing_gap 3.
func (im *Image) Resize(w, h int) *Image {
	return resample(im.view(0, 0, im.W, im.H), window{outW: w, outH: h, w: w, h: h})
}

// window is the wanted part, w x h pixels from (x, y), of a result of outW x outH.
type window struct{ outW, outH, x, y, w, h int }

// resample scales v to outW x outH and returns the window of the result.
func resample(v view, win window) *Image {
	out := New(win.w, win.h)
	v.resampleInto(out, win)
	return out
}

// resampleInto writes all pixels of the window to out.
func (v view) resampleInto(out *Image, win window) {
	if v.w == win.outW && v.h == win.outH {
		for y := range win.h {
			copy(out.Pix[3*y*win.w:3*(y+1)*win.w], v.pix[(win.y+y)*v.stride+3*win.x:])
		}
		return
	}
	spanX, spanY := float64(v.w), float64(v.h)
	fx, fy := max(1, v.w/(win.outW*reducingGap)), max(1, v.h/(win.outH*reducingGap))
	if fx > 1 || fy > 1 {
		small := boxAverage(v.row, v.w, v.h, fx, fy)
		v = small.view(0, 0, small.W, small.H)
		spanX, spanY = spanX/float64(fx), spanY/float64(fy)
	}
	cols := kernels.get(axis{v.w, spanX, win.outW, win.x, win.w})
	rows := kernels.get(axis{v.h, spanY, win.outH, win.y, win.h})
	if hasWide {
		resampleWide(out, v, cols, rows)
		return
	}
	// Only the source rows that the second pass reads go through the first.
	first, height := rows.first[0], rows.span()
	filtered := rooms.take(3 * win.w * height)
	defer rooms.Put(filtered)
	cols.horizontal(*filtered, v.pix[first*v.stride:], v.stride, height)
	sums := make([]int32, 3*win.w)
	for y := range win.h {
		rows.vertical(out.Pix[3*y*win.w:3*(y+1)*win.w], *filtered, y, first, sums)
	}
}

// rooms pools memory for pixels between the passes.
var rooms pool

type pool struct{ sync.Pool }

// take returns n bytes with any content.
func (p *pool) take(n int) *[]byte {
	room, ok := p.Get().(*[]byte)
	if !ok {
		room = new([]byte)
	}
	*room = slices.Grow((*room)[:0], n)[:n]
	return room
}

// axis identifies a kernel: span of size samples are scaled to out positions, of which n are wanted, beginning at from.
type axis struct {
	size         int
	span         float64
	out, from, n int
}

// kernels keeps the latest kernels: many pictures of a crawl have the same size, and making a kernel takes a tenth of
// the time of resizing a picture.
var kernels = kernelCache{made: map[axis]kernel{}}

type kernelCache struct {
	mu   sync.Mutex
	made map[axis]kernel
}

// maxKernels bounds the kept kernels to a few megabytes.
const maxKernels = 64

func (c *kernelCache) get(a axis) kernel {
	c.mu.Lock()
	k, ok := c.made[a]
	c.mu.Unlock()
	if ok {
		return k
	}
	k = newKernel(a.size, a.span, a.out, a.from, a.n)
	switch {
	case hasWide:
		k.split()
	case hasVector:
		k.spreadOut()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.made) == maxKernels {
		clear(c.made) // kernels in use are soon made again
	}
	c.made[a] = k
	return k
}

// kernel holds, for each wanted position of one axis, the start of its taps and their weights in fixed point.
type kernel struct {
	taps    int
	first   []int
	weights []int32 // taps for each position
	spread  []int32 // for AVX2: every weight four times, and zeros up to a multiple of four taps

	// For AVX-512, the number of groups of four taps for each position, where they begin, in groups from the first tap of
	// all on, and the digits of each group's weights, the highest first.
	depth  int
	fours  []int
	digits []int8
}

// weightBits is the binary point of the weights: a sum of weighted bytes, with the overshoot of the negative lobes,
// stays within an int32.
const weightBits = 22

// newKernel computes the weights that scale span of the size samples of an axis to out positions, n of them from from.
func newKernel(size int, span float64, out, from, n int) kernel {
	scale := span / float64(out)
	widen := max(1, scale)
	support := 2 * widen
	k := kernel{taps: min(size, int(2*support)+1), first: make([]int, n)}
	k.weights = make([]int32, n*k.taps)
	weights := make([]float64, k.taps)
	for i := range n {
		center := (float64(from+i) + 0.5) * scale
		lo := max(0, int(center-support+0.5))
		hi := min(size, int(center+support+0.5))
		// All positions have the same number of taps, so those at the end begin earlier, with weights of zero.
		k.first[i] = min(lo, size-k.taps)
		var total float64
		for t := range weights {
			weights[t] = 0
			if at := k.first[i] + t; at >= lo && at < hi {
				weights[t] = bicubic((float64(at) - center + 0.5) / widen)
				total += weights[t]
			}
		}
		for t, w := range weights {
			k.weights[i*k.taps+t] = int32(math.Round(w / total * (1 << weightBits)))
		}
	}
	return k
}

// spreadOut fills in spread.
func (k *kernel) spreadOut() {
	width := (k.taps + 3) / 4 * 16
	k.spread = make([]int32, len(k.first)*width)
	for i := range k.first {
		for t, w := range k.weights[i*k.taps : (i+1)*k.taps] {
			four := k.spread[i*width+4*t : i*width+4*t+4]
			four[0], four[1], four[2], four[3] = w, w, w, w
		}
	}
}

// bicubic evaluates Keys' kernel with a = -0.5. The conversions forbid fused multiply-adds, whose results differ by
// machine.
func bicubic(x float64) float64 {
	const a = -0.5
	x = math.Abs(x)
	switch {
	case x < 1:
		return float64(float64(float64((a+2)*x)-(a+3))*float64(x*x)) + 1
	case x < 2:
		return float64(float64(float64(float64(float64(x-5)*x)+8)*x)-4) * a
	}
	return 0
}

// span returns the number of samples from the first tap to the last.
func (k kernel) span() int { return k.first[len(k.first)-1] + k.taps - k.first[0] }

// split fills in depth, fours and digits. A weight has three digits of a signed byte each.
func (k *kernel) split() {
	base, n := k.first[0], len(k.first)
	for _, first := range k.first {
		k.depth = max(k.depth, (first-base+k.taps-1)/4-(first-base)/4+1)
	}
	k.fours, k.digits = make([]int, n), make([]int8, n*k.depth*12)
	for i, first := range k.first {
		k.fours[i] = min((first-base)/4, (k.span()+3)/4-k.depth)
		for t, w := range k.weights[i*k.taps : (i+1)*k.taps] {
			tap := first - base + t - 4*k.fours[i]
			at := (i*k.depth+tap/4)*12 + tap%4
			low := int32(int8(w))
			middle := int32(int8((w - low) >> 8))
			k.digits[at], k.digits[at+4], k.digits[at+8] = int8((w-low-middle<<8)>>16), int8(middle), int8(low)
		}
	}
}

// horizontal filters rows of pixels, which lie stride bytes apart in src and adjacent in dst.
func (k kernel) horizontal(dst, src []byte, stride, rows int) {
	width := 3 * len(k.first)
	for y := range rows {
		to, from := dst[y*width:(y+1)*width], src[y*stride:]
		k.horizontalFrom(k.horizontalVector(to, from), to, from)
	}
}

// horizontalFrom filters the pixels of a row from i on.
func (k kernel) horizontalFrom(i int, dst, src []byte) {
	const half = 1 << (weightBits - 1)
	for ; i < len(k.first); i++ {
		first := k.first[i]
		weights := k.weights[i*k.taps : (i+1)*k.taps]
		p := src[3*first : 3*(first+k.taps)]
		r, g, b := int32(half), int32(half), int32(half)
		for t, w := range weights {
			px := p[3*t : 3*t+3 : 3*t+3]
			r += w * int32(px[0])
			g += w * int32(px[1])
			b += w * int32(px[2])
		}
		out := dst[3*i : 3*i+3 : 3*i+3]
		out[0], out[1], out[2] = clampWeighted(r), clampWeighted(g), clampWeighted(b)
	}
}

// vertical filters row y of the result out of rows of len(dst) bytes, the first of which is source row base.
func (k kernel) vertical(dst, src []byte, y, base int, sums []int32) {
	done := k.verticalVector(dst, src, y, base)
	sums = sums[:len(dst)-done]
	for i := range sums {
		sums[i] = 1 << (weightBits - 1)
	}
	at := (k.first[y]-base)*len(dst) + done
	for _, w := range k.weights[y*k.taps : (y+1)*k.taps] {
		row := src[at : at+len(sums)]
		for i, s := range row {
			sums[i] += w * int32(s)
		}
		at += len(dst)
	}
	for i, s := range sums {
		dst[done+i] = clampWeighted(s)
	}
}

func clampWeighted(v int32) byte { return byte(min(255, max(0, v>>weightBits))) }
