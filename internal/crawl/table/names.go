package table

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Columns name the columns of a list. An empty name stands for the usual names in published lists.
type Columns struct{ URL, Caption string }

// Names of columns in published lists, in the order of preference. Names that can only mean an image come first.
var (
	urlNames = []string{
		"image_url",       // WIT, RedCaps, and CC3M, CC12M and SBU at Hugging Face
		"url",             // LAION, COYO, DataComp
		"photo_image_url", // Unsplash
		"image_link", "img_url", "imageurl",
	}
	captionNames = []string{
		"caption",                       // CC3M, CC12M, SBU, RedCaps, Re-LAION
		"text",                          // LAION, COYO, DataComp
		"raw_caption",                   // RedCaps without its cleaned captions
		"caption_reference_description", // WIT
		"photo_description",             // Unsplash
		"alt_text", "title", "description",
	}
)

// column is a column of a list, and the type of its values if they are no texts.
type column struct{ name, holds string }

// The options that name columns.
const (
	urlOption     = "--url-col"
	captionOption = "--caption-col"
)

// in returns the selected columns of a list.
func (c Columns) in(all []column) (Columns, error) {
	var found Columns
	var err error
	if found.URL, err = choose(all, c.URL, urlNames, "addresses", urlOption); err != nil {
		return found, err
	}
	found.Caption, err = choose(all, c.Caption, captionNames, "captions", captionOption)
	return found, err
}

// choose returns the name of the wanted column, or of the first known one. The case of letters matters only between
// names that differ in nothing else.
func choose(all []column, wanted string, known []string, what, option string) (string, error) {
	if wanted != "" {
		known = []string{wanted}
	}
	for _, name := range known {
		found := slices.IndexFunc(all, func(c column) bool { return c.name == name })
		if found < 0 {
			found = slices.IndexFunc(all, func(c column) bool { return strings.EqualFold(c.name, name) })
		}
		switch {
		case found < 0:
		case all[found].holds == "":
			return all[found].name, nil
		case wanted != "":
			return "", fmt.Errorf("column %q holds %s, want one text in each row (%s); the columns are %s", all[found].name, all[found].holds, option, quoted(all))
		}
	}
	if wanted != "" {
		return "", fmt.Errorf("no column %q (%s); the columns are %s", wanted, option, quoted(all))
	}
	return "", fmt.Errorf("no column of texts has a usual name of %s: name it (%s); the columns are %s", what, option, quoted(all))
}

// maxQuoted bounds the columns that an error names.
const maxQuoted = 40

// quoted lists the names of columns, with their types.
func quoted(all []column) string {
	var out []string
	for _, c := range all[:min(len(all), maxQuoted)] {
		text := strconv.Quote(c.name[:min(len(c.name), 80)])
		if c.holds != "" {
			text += " (" + c.holds + ")"
		}
		out = append(out, text)
	}
	if more := len(all) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}
