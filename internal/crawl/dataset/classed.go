package dataset

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/pairstream/pairstream/internal/crawl/shard"
)

// Classes are those of a classification set, in the order of their numbers.
type Classes struct {
	Names [][]string // of every class; reports use the first
	Notes []string   // about names that two classes have
	path  string
}

// ReadClasses reads a file with a class on each line, the first being class 0. Commas separate names of one class.
// A name that two classes have is noted: CLIP's own list for ImageNet has some.
func ReadClasses(file string) (*Classes, error) {
	lines, err := textLines(file, "--zeroshot")
	if err != nil {
		return nil, err
	}
	c := &Classes{path: file}
	lineOf := map[string]int{}
	for i, line := range lines {
		var names []string
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.TrimSpace(name); name != "" {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			return nil, fmt.Errorf("--zeroshot: line %d of %s names no class: line 1 is class 0, so no line may be left out",
				i+1, file)
		}
		for _, name := range names {
			if before := lineOf[strings.ToLower(name)]; before != 0 {
				c.Notes = append(c.Notes, fmt.Sprintf("line %d of %s repeats %q of line %d: "+
					"where both are as near, the class of line %d is the answer; rename one",
					i+1, file, name, before, before))
				continue
			}
			lineOf[strings.ToLower(name)] = i + 1
		}
		c.Names = append(c.Names, names)
	}
	return c, nil
}

// ReadTemplates reads a file with a sentence on each line. {} stands for the name of a class; so does {c}, as
// clip_benchmark writes it. They are returned with {}.
func ReadTemplates(file string) ([]string, error) {
	lines, err := textLines(file, "--templates")
	if err != nil {
		return nil, err
	}
	var out []string
	for i, line := range lines {
		t := strings.ReplaceAll(strings.TrimSpace(line), "{c}", "{}")
		if strings.Count(t, "{}") != 1 {
			return nil, fmt.Errorf("--templates: line %d of %s is %q, want one {} in it for the class, as in \"a photo of a {}\"",
				i+1, file, line)
		}
		out = append(out, t)
	}
	return out, nil
}

// textLines returns the lines of a text file, without empty ones at its end.
func textLines(file, flag string) ([]string, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	text := strings.TrimRight(strings.TrimPrefix(string(raw), "\ufeff"), " \t\r\n")
	if text == "" {
		return nil, fmt.Errorf("%s: %s is empty, want a line for each", flag, file)
	}
	return strings.Split(text, "\n"), nil
}

// classed is an image that was found, before its class is known.
type classed struct{ uri, entry, class string }

// folder returns the name of the image's folder, or "".
func (c classed) folder() string {
	if dir := path.Dir(strings.ReplaceAll(c.entry, `\`, "/")); dir != "." && dir != "/" {
		return path.Base(dir)
	}
	return ""
}

// ReadClassed reads the images of tars with their classes: the number in key.cls, or "cls" in key.json. If no image has
// either, the folders in the tars are the classes: by their names, if all of them are names of classes, and otherwise
// in alphabetical order, as torchvision's ImageFolder numbers them. The corpus has no captions. Every image is decoded
// once, as by [Read].
func ReadClassed(ctx context.Context, paths []string, c *Classes) (*Corpus, []int32, error) {
	var found []classed
	r, totals, err := readAllOf(ctx, paths, func(r *reading, v *shard.Visitor) {
		v.Classed = func(p shard.Classed) error {
			found = append(found, classed{p.URI, p.Entry, p.Class})
			r.take(p.Image, p.ImageID, p.Encoded, nil)
			return nil
		}
	})
	if err != nil {
		return nil, nil, fmt.Errorf("reading images with classes: %w", err)
	}
	if len(found) == 0 {
		return nil, nil, errors.New("reading images with classes: the tars hold no image, " +
			"want key.jpg, key.png or key.webp with key.cls beside it")
	}
	number := c.numberOf
	if !slices.ContainsFunc(found, func(f classed) bool { return f.class != "" }) {
		if number, err = c.byFolder(found); err != nil {
			return nil, nil, err
		}
	}
	var of []int32
	for i, f := range found {
		n, err := number(f)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the class of %s in %s: %w", f.entry, f.uri, err)
		}
		if !r.broken[i] {
			of = append(of, n)
		}
	}
	return r.sound(totals), of, nil
}

// numberOf reads the number of an image's class.
func (c *Classes) numberOf(f classed) (int32, error) {
	n, err := strconv.Atoi(f.class)
	switch {
	case f.class == "":
		return 0, errors.New("it has none, and others have: " +
			"write its number into key.cls beside the image, or leave the image out")
	case err != nil:
		return 0, fmt.Errorf("it is %.40q, want a whole number: 0 for the class on line 1 of %s", f.class, c.path)
	case n < 0 || n >= len(c.Names):
		return 0, fmt.Errorf("it is %d, but %s has %d lines, for classes 0 to %d: is it the list of these tars?",
			n, c.path, len(c.Names), len(c.Names)-1)
	}
	return int32(n), nil
}

// byFolder returns a function that takes the folder of an image for its class.
func (c *Classes) byFolder(found []classed) (func(classed) (int32, error), error) {
	var folders []string
	for _, f := range found {
		if f.folder() == "" {
			return nil, fmt.Errorf("reading the class of %s in %s: it has none: write its number into key.cls beside it, "+
				"or put the images of each class into a folder", f.entry, f.uri)
		}
		if at, known := slices.BinarySearch(folders, f.folder()); !known {
			folders = slices.Insert(folders, at, f.folder())
		}
	}
	plain := func(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", " ")) }
	numbers := map[string]int32{}
	for i, names := range slices.Backward(c.Names) { // the first of several with one name counts
		for _, name := range names {
			numbers[plain(name)] = int32(i)
		}
	}
	switch {
	case !slices.ContainsFunc(folders, func(f string) bool { _, known := numbers[plain(f)]; return !known }):
		return func(f classed) (int32, error) { return numbers[plain(f.folder())], nil }, nil
	case len(folders) == len(c.Names):
		return func(f classed) (int32, error) {
			at, _ := slices.BinarySearch(folders, f.folder())
			return int32(at), nil
		}, nil
	}
	return nil, fmt.Errorf("reading classes from the names of folders, as no image has key.cls: "+
		"there are %d folders, %q first, and %s has %d classes; want a folder for each class, or folders with the names of classes", len(folders), folders[0], c.path, len(c.Names))
}
