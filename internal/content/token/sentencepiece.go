package token

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// sentencePiece is a unigram model of SentencePiece: pieces with scores, and the rules that normalise a text first.
type sentencePiece struct {
	size     int
	controls map[string]int32 // pieces that occur in no text
	unknown  int32
	pieces   trie
	marks    trie // user-defined symbols, which are not normalised
	scores   []float32
	least    float32 // score of an ordinary piece
	rules    charsmap

	prefix, squeeze, escape bool // add a space before the text; collapse and trim spaces; write spaces as spaceMark
}

const (
	spaceMark    = "▁"
	unknownScore = 10 // less than the least score of an ordinary piece
	markPenalty  = 0.1
)

// Kinds of pieces, and numbers of fields of SentencePiece's ModelProto.
const (
	pieceNormal, pieceUnknown, pieceControl, pieceMark, pieceUnused, pieceByte = 1, 2, 3, 4, 5, 6

	modelPieces, modelTrainer, modelNormalizer           = 1, 2, 3
	pieceText, pieceScore, pieceKind                     = 1, 2, 3
	trainerKind, trainerSuffix, trainerBytes             = 3, 24, 35
	normalizerRules, normalizerPrefix, normalizerSqueeze = 2, 3, 4
	normalizerEscape                                     = 5
)

// fields calls use with each field of a message: its bytes, or else its number.
func fields(message []byte, use func(field int, data []byte, number uint64) error) error {
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return fmt.Errorf("it is no protocol buffer: %w", protowire.ParseError(n))
		}
		message = message[n:]
		var data []byte
		var number uint64
		switch kind {
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(message)
		case protowire.Fixed32Type:
			var bits uint32
			bits, n = protowire.ConsumeFixed32(message)
			number = uint64(bits)
		case protowire.BytesType:
			data, n = protowire.ConsumeBytes(message)
		default:
			n = protowire.ConsumeFieldValue(field, kind, message)
		}
		if n < 0 {
			return fmt.Errorf("it is no protocol buffer: %w", protowire.ParseError(n))
		}
		if err := use(int(field), data, number); err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}

func parseSentencePiece(raw []byte) (*sentencePiece, error) {
	p := &sentencePiece{
		controls: map[string]int32{}, unknown: -1, pieces: trie{}, marks: trie{}, least: math.MaxFloat32,
		prefix: true, squeeze: true, escape: true,
	}
	most := float32(-math.MaxFloat32)
	var marked []int32
	err := fields(raw, func(field int, data []byte, _ uint64) error {
		switch field {
		case modelPieces:
			kind, score, err := p.add(data)
			switch kind {
			case pieceNormal:
				p.least, most = min(p.least, score), max(most, score)
			case pieceMark:
				marked = append(marked, int32(p.size-1))
			}
			return err
		case modelTrainer:
			return checkTrainer(data)
		case modelNormalizer:
			return p.normalizer(data)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if p.unknown < 0 || most < p.least {
		return nil, fmt.Errorf("none of its %d pieces is ordinary, or none stands for unknown characters", p.size)
	}
	for _, id := range marked { // scores holds its length until the highest score is known
		p.scores[id] = p.scores[id]*most - markPenalty
	}
	return p, nil
}

// add reads the next piece.
func (p *sentencePiece) add(message []byte) (kind uint64, score float32, err error) {
	text := ""
	kind = pieceNormal
	err = fields(message, func(field int, data []byte, number uint64) error {
		switch field {
		case pieceText:
			text = string(data)
		case pieceScore:
			score = math.Float32frombits(uint32(number))
		case pieceKind:
			kind = number
		}
		return nil
	})
	id := int32(p.size)
	p.size++
	switch {
	case err != nil:
		return 0, 0, err
	case text == "":
		return 0, 0, fmt.Errorf("piece %d is empty", id)
	case math.IsNaN(float64(score)) || math.IsInf(float64(score), 0):
		return 0, 0, fmt.Errorf("piece %d, %q, has the score %v", id, text, score)
	}
	switch kind {
	case pieceUnknown:
		p.unknown = id
	case pieceControl:
		p.controls[text] = id
	case pieceMark:
		p.marks.add(text, id)
		p.pieces.add(text, id)
		score = float32(len(text))
	case pieceNormal:
		p.pieces.add(text, id)
	case pieceUnused:
	default:
		return 0, 0, fmt.Errorf("piece %d, %q, is a byte or of a kind that is not known (%d), want a unigram model as SigLIP's", id, text, kind)
	}
	p.scores = append(p.scores, score)
	return kind, score, nil
}

func checkTrainer(message []byte) error {
	return fields(message, func(field int, _ []byte, number uint64) error {
		switch {
		case field == trainerKind && number != 1:
			return fmt.Errorf("its kind is %d, want 1, a unigram model as SigLIP's", number)
		case (field == trainerSuffix || field == trainerBytes) && number != 0:
			return errors.New("it marks spaces behind words or cuts characters into bytes, want a unigram model as SigLIP's")
		}
		return nil
	})
}

func (p *sentencePiece) normalizer(message []byte) error {
	return fields(message, func(field int, data []byte, number uint64) (err error) {
		switch field {
		case normalizerRules:
			p.rules, err = parseCharsmap(data)
		case normalizerPrefix:
			p.prefix = number != 0
		case normalizerSqueeze:
			p.squeeze = number != 0
		case normalizerEscape:
			p.escape = number != 0
		}
		return err
	})
}

// step returns the replacement of the beginning of a text, and the number of bytes replaced.
func (p *sentencePiece) step(text string) (string, int) {
	if _, n := p.marks.longest(text); n > 0 {
		return text[:n], n
	}
	if to, n := p.rules.longest(text); n > 0 {
		return to, n
	}
	r, n := utf8.DecodeRuneInString(text)
	if r == utf8.RuneError && n == 1 {
		return "\uFFFD", 1
	}
	return text[:n], n
}

// normal returns the normalised text.
func (p *sentencePiece) normal(text string) string {
	var b strings.Builder
	space := " "
	if p.escape {
		space = spaceMark
	}
	parted := p.squeeze // whether a space has just been written, or nothing yet
	for begun := false; text != ""; {
		to, n := p.step(text)
		text = text[n:]
		if parted {
			to = strings.TrimLeft(to, " ")
		}
		if to == "" {
			continue
		}
		if !begun && p.prefix {
			b.WriteString(space)
		}
		begun = true
		b.WriteString(strings.ReplaceAll(to, " ", space))
		parted = p.squeeze && strings.HasSuffix(to, " ")
	}
	out := b.String()
	for p.squeeze && strings.HasSuffix(out, space) {
		out = strings.TrimSuffix(out, space)
	}
	return out
}

// ending is the best way to a byte of a text: the piece that ends there, and where it begins.
type ending struct {
	score float32
	from  int32
	id    int32
	known bool
}

// encode returns the ids of the pieces whose scores have the highest sum. Unknown characters in a row are one id.
func (p *sentencePiece) encode(text string) []int32 {
	text = p.normal(text)
	endings := make([]ending, len(text)+1)
	for at := 0; at < len(text); {
		here := endings[at].score
		_, size := utf8.DecodeRuneInString(text[at:])
		whole := false // whether the character is a piece
		reach := func(to int, score float32, id int32) {
			if t := &endings[to]; !t.known || score > t.score {
				*t = ending{score, int32(at), id, true}
			}
		}
		p.pieces.each(text[at:], func(id int32, n int) {
			reach(at+n, p.scores[id]+here, id)
			whole = whole || n == size
		})
		if !whole {
			reach(at+size, p.least-unknownScore+here, p.unknown)
		}
		at += size
	}
	var ids []int32
	for at := len(text); at > 0; at = int(endings[at].from) {
		if id := endings[at].id; id != p.unknown || len(ids) == 0 || ids[len(ids)-1] != id {
			ids = append(ids, id)
		}
	}
	for i, j := 0, len(ids)-1; i < j; i, j = i+1, j-1 {
		ids[i], ids[j] = ids[j], ids[i]
	}
	return ids
}

// trie finds the strings that a text begins with. A key is a node and the byte that leads on from it.
type trie map[trieKey]trieNode

type trieKey struct {
	node uint32
	next byte
}

type trieNode struct {
	node uint32 // 0 is the root
	id   int32  // of the string that ends here, plus 1
}

func (t trie) add(text string, id int32) {
	node := uint32(0)
	for i := range len(text) {
		key := trieKey{node, text[i]}
		next, ok := t[key]
		if !ok {
			next.node = uint32(len(t)) + 1
		}
		if i == len(text)-1 {
			next.id = id + 1
		}
		t[key] = next
		node = next.node
	}
}

// each calls use with every string that text begins with, the shortest first.
func (t trie) each(text string, use func(id int32, n int)) {
	node := uint32(0)
	for i := range len(text) {
		next, ok := t[trieKey{node, text[i]}]
		if !ok {
			return
		}
		if next.id > 0 {
			use(next.id-1, i+1)
		}
		node = next.node
	}
}

func (t trie) longest(text string) (id int32, n int) {
	t.each(text, func(found int32, length int) { id, n = found, length })
	return id, n
}

// charsmap holds SentencePiece's precompiled rules: a trie as a double array, whose values are offsets in texts that end
// with a zero byte.
type charsmap struct {
	units []uint32
	texts string
}

func parseCharsmap(data []byte) (charsmap, error) {
	if len(data) == 0 {
		return charsmap{}, nil
	}
	if len(data) < 4 {
		return charsmap{}, errors.New("its rules of normalization are cut short")
	}
	size := int64(binary.LittleEndian.Uint32(data))
	data = data[4:]
	if size%4 != 0 || size == 0 || size > int64(len(data)) {
		return charsmap{}, fmt.Errorf("its rules of normalization are %d of %d bytes", size, len(data))
	}
	c := charsmap{units: make([]uint32, size/4), texts: string(data[size:])}
	for i := range c.units {
		c.units[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	return c, nil
}

// longest returns the replacement for the longest beginning of text that has a rule, and its length.
func (c charsmap) longest(text string) (to string, n int) {
	if len(c.units) == 0 {
		return "", 0
	}
	at := offset(c.units[0])
	for i := range len(text) {
		at ^= uint32(text[i])
		if at >= uint32(len(c.units)) || c.units[at]&(1<<31|0xFF) != uint32(text[i]) {
			break
		}
		leaf := c.units[at]&(1<<8) != 0
		at ^= offset(c.units[at])
		if leaf && at < uint32(len(c.units)) {
			if start := c.units[at] &^ (1 << 31); start < uint32(len(c.texts)) {
				to, _, _ = strings.Cut(c.texts[start:], "\x00")
				n = i + 1
			}
		}
	}
	return to, n
}

// offset returns the position of the children of a unit of the double array.
func offset(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }
