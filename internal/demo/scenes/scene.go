package scenes

import (
	"math/rand/v2"
)

// Shape is the kind of an object; in a statement the empty shape means any.
type Shape string

// Colour is an object's colour; in a statement the empty colour means any.
type Colour string

// Size is an object's size; in a statement the empty size means any.
type Size string

// Pattern is the pattern painted on an object. An object without one has one colour; in a statement the empty pattern
// means any, or none.
type Pattern string

// The shapes, colours, sizes and patterns of objects. The first shapes are figures, and the others are things.
var (
	Shapes = []Shape{
		"circle", "square", "triangle", "star", "ring", "cross",
		"heart", "arrow", "moon", "house", "tree", "car", "boat", "fish", "cup", "key", "flower", "mushroom", "umbrella", "ladder",
		"hammer", "bottle", "lamp", "chair", "table", "hat", "shoe", "cloud", "kite", "rocket", "flag", "bird", "cat", "bell", "book",
		"leaf", "candle", "snowman", "window", "crown", "butterfly",
	}
	Colours  = []Colour{"red", "orange", "yellow", "green", "blue", "purple", "pink", "black"}
	Sizes    = []Size{"small", "large"}
	Patterns = []Pattern{"striped", "spotted"}
)

// Unit is the length of a picture's side in the coordinates of scenes.
const Unit = 1000

// RelationGap is the distance between centres for one object to be beside, above or below another.
const RelationGap = Unit / 4

// radii of the circles around objects.
var radii = map[Size]int{"small": 145, "large": 215}

// Object is one drawn object.
type Object struct {
	Shape   Shape   `json:"shape"`
	Colour  Colour  `json:"colour"`
	Size    Size    `json:"size"`
	Pattern Pattern `json:"pattern,omitempty"`
	X       int     `json:"x"`     // centre, in 1/Unit of the side from the left
	Y       int     `json:"y"`     // from the top
	Angle   int     `json:"angle"` // degrees clockwise
	Shade   int     `json:"shade"` // variation of the colour, -10..10
}

// Scene is the content of a picture.
type Scene struct {
	Objects    []Object `json:"objects"`
	Background [3]int   `json:"background"` // RGB of the middle
	Slope      [2]int   `json:"slope"`      // brightening towards the right and the lower edge
}

// shares of scenes with one, two, three and four objects, in percent.
var countShares = []int{20, 35, 25, 20}

// Kinds restricts the objects of scenes, so that more captions are true of more pictures. The zero value restricts
// nothing.
type Kinds struct {
	Shapes  int // number of Shapes used, from the first; 0: all
	Colours int // number of Colours used, from the first; 0: all
	Objects int // objects of every scene; 0: one to four
	// Large leaves the small objects out.
	Large bool
	// Plain leaves the patterns out.
	Plain bool
	// Partial makes captions omit things, so that their words do not show whether two pictures fit both. No object
	// copies another.
	Partial bool `json:",omitempty"`

	several bool // at least two objects in every scene
}

// Random draws a scene of these kinds.
func (k Kinds) Random(rng *rand.Rand) Scene {
	shapes, colours, sizes := firstOf(Shapes, k.Shapes), firstOf(Colours, k.Colours), Sizes
	if k.Large {
		sizes = []Size{"large"}
	}
	s := Scene{Slope: [2]int{rng.IntN(25) - 12, rng.IntN(25) - 12}}
	for c := range s.Background {
		s.Background[c] = 222 + rng.IntN(22)
	}
	n, share := 1, rng.IntN(100)
	for share >= countShares[n-1] {
		share -= countShares[n-1]
		n++
	}
	switch {
	case k.Objects > 0:
		n = k.Objects
	case k.several:
		n = max(n, 2)
	}
	s.Objects = make([]Object, n)
	for i := range s.Objects {
		o := &s.Objects[i]
		o.Shape, o.Colour, o.Size = pick(rng, shapes), pick(rng, colours), pick(rng, sizes)
		if !k.Plain && rng.IntN(2) == 0 {
			o.Pattern = pick(rng, Patterns)
		}
		// Every third object copies the one before it, so that there is something to count.
		if i > 0 && !k.Partial && rng.IntN(3) == 0 {
			last := s.Objects[i-1]
			o.Shape, o.Colour, o.Size, o.Pattern = last.Shape, last.Colour, last.Size, last.Pattern
		}
		o.Angle, o.Shade = rng.IntN(25)-12, rng.IntN(21)-10
	}
	s.place(rng)
	return s
}

// place puts a single object anywhere, and several into different quarters, near their middles.
func (s *Scene) place(rng *rand.Rand) {
	const margin = 5
	if len(s.Objects) == 1 {
		o := &s.Objects[0]
		room := Unit/2 - radii[o.Size] - margin
		o.X, o.Y = Unit/2+jitter(rng, room), Unit/2+jitter(rng, room)
		return
	}
	quarters := rng.Perm(4)
	for i := range s.Objects {
		o := &s.Objects[i]
		room := min(80, Unit/4-radii[o.Size]-margin)
		o.X = Unit/4 + quarters[i]%2*Unit/2 + jitter(rng, room)
		o.Y = Unit/4 + quarters[i]/2*Unit/2 + jitter(rng, room)
	}
}

// jitter draws from -room..room.
func jitter(rng *rand.Rand, room int) int { return rng.IntN(2*room+1) - room }

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

// firstOf returns the first n of a list, or all of it when n is 0.
func firstOf[T any](list []T, n int) []T {
	if n == 0 {
		return list
	}
	return list[:n]
}
