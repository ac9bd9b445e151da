package scenes

import "github.com/spf13/pflag"

// AddFlags adds the flags of `pairstream synth` to f. Their defaults are the current values of the options.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	f.Uint64Var(&o.Seed, "seed", o.Seed, "seed; the same seed gives the same bytes")
	f.IntVar(&o.Scenes, "scenes", o.Scenes, "number of scenes")
	f.IntVar(&o.Captions, "captions", o.Captions, "captions of each scene")
	f.IntVar(&o.Side, "side", o.Side, "pixels on a side of the pictures")
	f.StringVar(&o.Format, "format", o.Format, "png or jpeg")
	f.IntVar(&o.PerShard, "per-shard", o.PerShard, "scenes in a tar")
	f.IntVar(&o.Kinds.Shapes, "shapes", o.Kinds.Shapes, "number of shapes; fewer make more captions true of more pictures; 0: all")
	f.IntVar(&o.Kinds.Objects, "objects", o.Kinds.Objects, "objects of every scene; 0: one to four")
	f.BoolVar(&o.Kinds.Plain, "plain", o.Kinds.Plain, "leave stripes and spots out")
	f.BoolVar(&o.Kinds.Partial, "partial", o.Kinds.Partial, "captions leave things out: words alone do not tell which pictures they fit")
	f.BoolVar(&o.Kinds.Large, "large", o.Kinds.Large, "leave small objects out")
}
