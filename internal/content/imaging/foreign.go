package imaging

import "strings"

// foreigns are the first bytes of unsupported image formats.
var foreigns = []struct{ head, name string }{
	{"GIF8", "GIF"},
	{"BM", "BMP"},
	{"II*\x00", "TIFF"},
	{"MM\x00*", "TIFF"},
	{"\x00\x00\x00\x0cJXL ", "JPEG XL"},
	{"\xff\x0a", "JPEG XL"},
	{"\x00\x00\x00\x0cjP  ", "JPEG 2000"},
}

// foreign names the format of an unsupported image, and the remedy; "" for bytes that are no image.
func foreign(encoded []byte) string {
	head := string(encoded[:min(len(encoded), 12)])
	name := ""
	for _, f := range foreigns {
		if strings.HasPrefix(head, f.head) {
			name = f.name
		}
	}
	if len(head) == 12 && head[4:8] == "ftyp" {
		switch brand := head[8:]; {
		case strings.HasPrefix(brand, "avi"):
			name = "AVIF"
		case strings.HasPrefix(brand, "he"), brand == "mif1", brand == "msf1":
			name = "HEIC"
		}
	}
	if name == "" {
		return ""
	}
	return ", but " + name + ": convert it"
}
