package schemas_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/pairstream/pairstream/schemas"
)

// A producer makes a pair, encodes it and finds its lane. A reader gets the pair back from the header and the value.
func Example() {
	image := schemas.NewImageID([]byte("the bytes of a JPEG file"))
	pair := &schemas.Pair{
		ID: schemas.NewPairID(image, "a cat on a sofa"), ImageID: image, Caption: "a cat on a sofa",
		Image: &schemas.ImageRef{URI: "s3://crawl/00000.tar", Offset: 1536, Size: 24},
	}
	value, err := schemas.Marshal(pair)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("topic", schemas.Pairs.Name("exp2"), "lane", pair.ImageID.Lane(4), "of 4")
	fmt.Println("header", schemas.HeaderSchema, pair.Schema())

	record, err := schemas.Unmarshal(schemas.SchemaPair, value)
	if err != nil {
		log.Fatal(err)
	}
	read := record.(*schemas.Pair)
	fmt.Println(read.Caption, "at", read.Image.URI, "from", read.Image.Offset)
	// Output:
	// topic exp2.pairs lane 3 of 4
	// header schema pairstream.pair/1
	// a cat on a sofa at s3://crawl/00000.tar from 1536
}

// Unmarshal says which of three things is wrong with a record.
func ExampleUnmarshal() {
	value, err := schemas.Marshal(&schemas.Seal{Final: true})
	if err != nil {
		log.Fatal(err)
	}
	for _, try := range []struct {
		schema string
		value  []byte
	}{
		{schemas.SchemaSeal, value},
		{schemas.SchemaSeal, value[:3]},
		{"pairstream.seal/9", value},
		{schemas.SchemaPair, value},
	} {
		_, err := schemas.Unmarshal(try.schema, try.value)
		fmt.Println(err == nil, errors.Is(err, schemas.ErrMalformed), errors.Is(err, schemas.ErrUnknownSchema), errors.Is(err, schemas.ErrInvalid))
	}
	// Output:
	// true false false false
	// false true false false
	// false false true false
	// false false false true
}

// Vectors travel as float16.
func ExampleNewFloat16s() {
	v := schemas.NewFloat16s([]float32{0.6, -0.8, 0})
	fmt.Println(v.Len(), v.Floats())
	// Output:
	// 3 [0.60009766 -0.7998047 0]
}
