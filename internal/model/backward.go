package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// BackwardOrder returns the places of [Model.Params] in the order in which a backward pass is done with them: heads, fusion
// layers, the text encoder from its end, and the image encoder from its end, which begins a forward pass. The order depends
// on the names and the configuration alone.
func (m *Model) BackwardOrder() []int {
	order := make([]int, len(m.params))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(m.Config.backwardPlace(m.params[a].Name), m.Config.backwardPlace(m.params[b].Name))
	})
	return order
}

// backwardPlace returns a number that grows with the time at which a backward pass is done with a weight.
func (c Config) backwardPlace(name string) int {
	var layer int
	_, err := fmt.Sscanf(name, "text_encoder.bert.encoder.layer.%d.", &layer)
	if err == nil {
		return c.TextLayers - layer
	}
	images := c.TextLayers + 2
	if _, err := fmt.Sscanf(name, "visual_encoder.blocks.%d.", &layer); err == nil {
		return images + c.VisionDepth - layer
	}
	switch {
	case strings.HasPrefix(name, "visual_encoder.norm."):
		return images
	case strings.HasPrefix(name, "visual_encoder."):
		return images + c.VisionDepth + 1
	case strings.HasPrefix(name, "text_encoder.bert."):
		return c.TextLayers + 1
	case strings.HasPrefix(name, maskedHeadName), strings.HasPrefix(name, "itm_head."):
		return 0
	}
	return c.TextLayers - c.FusionLayer // of the contrastive loss, which comes before fusion
}
