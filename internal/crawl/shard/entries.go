package shard

import (
	"encoding/json"
	"errors"
	"io"
)

// Entry is an image of a JSON list with its captions.
type Entry struct {
	Image    string            // its path, as the list writes it; empty: none
	Split    string            // of Karpathy's lists
	Captions []json.RawMessage // JSON strings, if the list is sound
	Single   bool              // the list has one caption per entry, so more entries of the image may follow
	Broken   bool              // no object with these members
}

// entryJSON is an entry of either form of a list.
type entryJSON struct {
	Folder    string `json:"filepath"`
	Filename  string `json:"filename"`
	Split     string `json:"split"`
	Sentences []struct {
		Raw json.RawMessage `json:"raw"`
	} `json:"sentences"`

	Image   string          `json:"image"`
	Caption json.RawMessage `json:"caption"`
}

// ReadEntries calls each with every entry of a JSON list, in order: Karpathy's, {"images": [{"filename", "split",
// "sentences": [{"raw"}]}]}, or ALBEF's, [{"image", "caption"}], where a caption is a string or a list. It holds one
// entry in memory.
func ReadEntries(r io.Reader, each func(Entry) error) error {
	l := entryReader{json.NewDecoder(r), each}
	err := l.read()
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

type entryReader struct {
	*json.Decoder
	each func(Entry) error
}

func (l entryReader) read() error {
	first, err := l.Token()
	if err != nil {
		return err
	}
	switch first {
	case json.Delim('['):
		return l.entries()
	case json.Delim('{'):
	default:
		return errors.New("neither an object nor a list")
	}
	found := false
	for l.More() {
		key, err := l.Token()
		if err != nil {
			return err
		}
		if key != "images" {
			if err := l.Decode(new(json.RawMessage)); err != nil {
				return err
			}
			continue
		}
		found = true
		switch begin, err := l.Token(); {
		case err != nil:
			return err
		case begin != json.Delim('['):
			return errors.New(`"images" is not a list`)
		}
		if err := l.entries(); err != nil {
			return err
		}
	}
	if _, err = l.Token(); err == nil && !found { // without the object's end the file is cut
		err = errors.New(`it has no "images"`)
	}
	return err
}

// entries reads a list to its end.
func (l entryReader) entries() error {
	for l.More() {
		var raw json.RawMessage
		if err := l.Decode(&raw); err != nil {
			return err
		}
		if err := l.each(entryOf(raw)); err != nil {
			return err
		}
	}
	_, err := l.Token()
	return err
}

func entryOf(raw json.RawMessage) Entry {
	var e entryJSON
	if json.Unmarshal(raw, &e) != nil {
		return Entry{Broken: true}
	}
	if e.Filename != "" {
		out := Entry{Image: e.Filename, Split: e.Split}
		if e.Folder != "" {
			out.Image = e.Folder + "/" + e.Filename
		}
		for _, s := range e.Sentences {
			out.Captions = append(out.Captions, s.Raw)
		}
		return out
	}
	out := Entry{Image: e.Image}
	if present(e.Caption) && json.Unmarshal(e.Caption, &out.Captions) != nil {
		out.Captions, out.Single = []json.RawMessage{e.Caption}, true
	}
	return out
}
