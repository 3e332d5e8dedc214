use crate::handle::{call, lend, make, report, Handle};
use crate::{Context, Model, Report, Result};
use assay_sys as sys;

/// What an input or a layer of one graph gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value(sys::assay_value);

/// Describes a network of your own, layer by layer; assay_graph.h lists the kinds of layers.
#[derive(Debug)]
pub struct Graph(Handle<sys::assay_graph>);

impl Graph {
    /// An empty graph. Its name is for people.
    pub fn new(context: &Context, name: &str) -> Result<Graph> {
        make(sys::assay_graph_free, context.0.host.as_ref(), |out, e| unsafe {
            sys::assay_graph_create(context.0.get(), lend(name), out, e)
        })
        .map(Graph)
    }

    /// Adds a tensor of each batch, in the order of the batch.
    pub fn input(&mut self, name: &str, attributes: &str) -> Result<Value> {
        let mut out = 0;
        call(|e| unsafe {
            sys::assay_graph_input(self.0.get(), lend(name), lend(attributes), &mut out, e)
        })?;
        Ok(Value(out))
    }

    /// Adds a layer that reads values of this graph.
    pub fn layer(&mut self, kind: &str, name: &str, keys: &str, from: &[Value]) -> Result<Value> {
        let from: Vec<sys::assay_value> = from.iter().map(|value| value.0).collect();
        let (graph, kind, name, keys) = (self.0.get(), lend(kind), lend(name), lend(keys));
        let mut out = 0;
        call(|e| unsafe {
            let (first, n) = (from.as_ptr(), from.len());
            sys::assay_graph_layer(graph, kind, name, keys, first, n, &mut out, 1, e)
        })?;
        Ok(Value(out))
    }

    /// Names a value: "loss", which training makes smaller, metrics and results. `weight` is how much
    /// of an evaluation's batch the value sums up.
    pub fn output(
        &mut self,
        name: &str,
        value: Value,
        weight: Option<Value>,
        attributes: &str,
    ) -> Result<()> {
        let weight = weight.map_or(0, |value| value.0);
        call(|e| unsafe {
            let (graph, attributes) = (self.0.get(), lend(attributes));
            sys::assay_graph_output(graph, lend(name), value.0, weight, attributes, e)
        })
    }

    /// What the graph is so far.
    pub fn report(&self) -> Result<Report> {
        report(|out, e| unsafe { sys::assay_graph_report(self.0.get(), out, e) })
    }

    /// Makes the model, without weights.
    pub fn finish(&mut self) -> Result<Model> {
        make(sys::assay_model_free, self.0.host.as_ref(), |out, e| unsafe {
            sys::assay_graph_finish(self.0.get(), out, e)
        })
        .map(Model)
    }
}
