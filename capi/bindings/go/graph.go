package assay

// #include <assay/assay_graph.h>
import "C"

import "encoding/json"

// Graph describes a network of your own, layer by layer; assay_graph.h lists the kinds of layers.
type Graph struct {
	*handle[C.assay_graph]
	context *Context
}

// Value is what an input or a layer of one graph gives. 0 is none.
type Value uint64

// NewGraph makes an empty graph. Its name is for people.
func NewGraph(c *Context, name string) (*Graph, error) {
	var out *C.assay_graph
	err := c.call(func(c *C.assay_context, e **C.assay_error) C.assay_status {
		return C.assay_graph_create(c, cText(name), &out, e)
	})
	if err != nil {
		return nil, err
	}
	return &Graph{newHandle("graph", out, func(g *C.assay_graph) { C.assay_graph_free(g) }, c.host), c}, nil
}

// Input adds a tensor of each batch, in the order of the batch.
func (g *Graph) Input(name string, attributes any) (Value, error) {
	text, err := configText(attributes)
	if err != nil {
		return 0, err
	}
	var out C.assay_value
	err = g.call(func(g *C.assay_graph, e **C.assay_error) C.assay_status {
		return C.assay_graph_input(g, cText(name), cText(text), &out, e)
	})
	return Value(out), err
}

// Layer adds a layer that reads values of this graph.
func (g *Graph) Layer(kind, name string, attributes any, in ...Value) (Value, error) {
	text, err := configText(attributes)
	if err != nil {
		return 0, err
	}
	values := make([]C.assay_value, len(in)+1)
	for i, v := range in {
		values[i] = C.assay_value(v)
	}
	var out C.assay_value
	err = g.call(func(g *C.assay_graph, e **C.assay_error) C.assay_status {
		return C.assay_graph_layer(g, cText(kind), cText(name), cText(text), &values[0], C.size_t(len(in)), &out, 1, e)
	})
	return Value(out), err
}

// Output names a value: "loss", which training makes smaller, metrics and results. weight, a value or
// 0, is how much of an evaluation's batch the value sums up.
func (g *Graph) Output(name string, value, weight Value, attributes any) error {
	text, err := configText(attributes)
	if err != nil {
		return err
	}
	return g.call(func(g *C.assay_graph, e **C.assay_error) C.assay_status {
		return C.assay_graph_output(g, cText(name), C.assay_value(value), C.assay_value(weight), cText(text), e)
	})
}

// Report says what the graph is so far.
func (g *Graph) Report() (json.RawMessage, error) {
	return g.report(func(g *C.assay_graph, out **C.assay_report, e **C.assay_error) C.assay_status {
		return C.assay_graph_report(g, out, e)
	})
}

// Finish makes the model, without weights.
func (g *Graph) Finish() (*Model, error) {
	var out *C.assay_model
	err := g.call(func(g *C.assay_graph, e **C.assay_error) C.assay_status {
		return C.assay_graph_finish(g, &out, e)
	})
	if err != nil {
		return nil, err
	}
	return newModelHandle(out, g.context), nil
}
