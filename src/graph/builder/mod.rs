//! The fluent way to a [`Spec`]: build a graph of images and draws, then ask for its spec.
//!
//! ```
//! use forebay::graph::builder::Graph;
//! use forebay::graph::spec::Placement;
//! use forebay::tensor::DType;
//!
//! const MEAN: [f32; 3] = [0.4914, 0.4822, 0.4465];
//! const STD: [f32; 3] = [0.2023, 0.1994, 0.2010];
//!
//! let g = Graph::new(42);
//! let (jpegs, labels) = g.read_file_list("labels.txt").shuffle(true).build();
//! let images = g.decode(&jpegs, Placement::Mixed);
//! let images = g.when(g.chance(0.5), &images, |x| g.rotate(x, g.uniform(-15.0, 15.0)).keep_size(true));
//! let images = g.when(g.chance(0.5), &images, |x| {
//!     let shifts = g.uniform(-1.0, 1.0).per_channel() * [15.0, 15.0, 15.0];
//!     (x + shifts).clamp(0.0, 255.0).cast(DType::U8)
//! });
//! let images = (images / 255.0 - MEAN) / STD;
//! g.output("images", images.transpose([2, 0, 1]));
//! g.output("labels", labels.cast(DType::I64));
//!
//! let spec = g.spec()?;
//! assert_eq!(spec.steps.len(), 4);
//! # Ok::<(), forebay::Error>(())
//! ```
//!
//! Nodes are cheap handles to their graph. A node never changes: what is called on it makes
//! another one, and only what leads to an output gets into the spec. Mistakes (a range turned
//! round, nodes of two graphs, an image that leaves its branch) are kept until [`Graph::spec`],
//! which returns the first.

mod emit;
mod fold;
mod ops;
mod value;

pub use super::program::Border;
pub use super::spec::Placement;
pub use value::{Argument, Image, Operand, Scalar, ScalarOperand};

use super::expr::{Binary, Unary, is_name};
use super::nearest::quote;
use super::spec::{Arg, DecoderSpec, Dist, ReaderKind, ReaderSpec, Spec};
use crate::error::{Error, Result};
use crate::policy::{Cache, LastBatch, MaxBad, OnError};
use crate::tensor::DType;
use std::cell::RefCell;
use std::rc::Rc;

/// A graph under construction; clones are handles to the same graph.
#[derive(Clone)]
pub struct Graph(Rc<RefCell<State>>);

/// A node's place in [`State::nodes`]. What a node reads has a lower one.
type Id = usize;

/// The decoded image, which every graph has.
const DECODE: Id = 0;

struct State {
    seed: u64,
    reader: Option<ReaderSpec>,
    decoder: Option<DecoderSpec>,
    nodes: Vec<Node>,
    /// The scope that each scope lies in; 0, the top, lies in itself. A branch's closure is one.
    scopes: Vec<usize>,
    /// The scope that new nodes belong to.
    scope: usize,
    outputs: Vec<(String, Id)>,
    error: Option<Error>,
}

struct Node {
    scope: usize,
    name: Option<String>,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Decode,
    Draw { dist: Dist, per_channel: bool },
    Math { form: Form, terms: Vec<Term>, image: bool },
    Op { op: String, input: Id, args: Vec<(String, Given)> },
    When { predicate: Id, input: Id, then: Branch, otherwise: Branch },
}

#[derive(Clone, Copy)]
enum Form {
    Unary(Unary),
    Binary(Binary),
    Clamp,
    Cast(DType),
}

#[derive(Clone, Copy)]
enum Term {
    Number(f64),
    Channels([f64; 3]),
    Node(Id),
}

#[derive(Clone)]
enum Given {
    Plain(Arg),
    Scalar(Id),
}

#[derive(Clone, Copy)]
struct Branch {
    scope: usize,
    result: Id,
}

/// The encoded images of a reader, before [`Graph::decode`].
#[derive(Clone)]
pub struct Jpegs {
    graph: Graph,
}

/// The labels of a reader, i64. Every batch has them.
#[derive(Clone)]
pub struct Labels {
    graph: Graph,
    dtype: DType,
}

impl Labels {
    /// The labels as `dtype`, which can only be [`DType::I64`].
    #[must_use]
    pub fn cast(&self, dtype: DType) -> Labels {
        Labels { dtype, ..self.clone() }
    }
}

/// What a graph can deliver; see [`Graph::output`].
pub enum Deliverable {
    /// An image of a sample.
    Image(Image),
    /// The label of a sample.
    Labels(Labels),
}

impl From<Image> for Deliverable {
    fn from(image: Image) -> Self {
        Deliverable::Image(image)
    }
}

impl From<&Image> for Deliverable {
    fn from(image: &Image) -> Self {
        Deliverable::Image(image.clone())
    }
}

impl From<Labels> for Deliverable {
    fn from(labels: Labels) -> Self {
        Deliverable::Labels(labels)
    }
}

/// A reader under construction; [`ReaderBuilder::build`] ends it.
pub struct ReaderBuilder {
    graph: Graph,
    spec: ReaderSpec,
}

impl ReaderBuilder {
    /// Whether each epoch has an order of its own; the default is the order of the list.
    #[must_use]
    pub fn shuffle(mut self, shuffle: bool) -> Self {
        self.spec.shuffle = shuffle;
        self
    }

    /// What becomes of an incomplete global batch.
    #[must_use]
    pub fn last_batch(mut self, last_batch: LastBatch) -> Self {
        self.spec.last_batch = last_batch;
        self
    }

    /// What becomes of a sample that cannot be read or decoded; the default is to fail.
    #[must_use]
    pub fn on_error(mut self, on_error: OnError) -> Self {
        self.spec.on_error = on_error;
        self
    }

    /// How many of those are borne; the default is a tenth.
    #[must_use]
    pub fn max_bad(mut self, max_bad: MaxBad) -> Self {
        self.spec.max_bad = max_bad;
        self
    }

    /// What is kept in memory from epoch to epoch; the default is nothing.
    #[must_use]
    pub fn cache(mut self, cache: Cache) -> Self {
        self.spec.cache = cache;
        self
    }

    /// Makes this the reader of the graph, which takes one.
    pub fn build(self) -> (Jpegs, Labels) {
        let ReaderBuilder { graph, spec } = self;
        if graph.0.borrow_mut().reader.replace(spec).is_some() {
            graph.fail("a graph takes one reader, and this one has two");
        }
        let labels = Labels { graph: graph.clone(), dtype: DType::I64 };
        (Jpegs { graph }, labels)
    }
}

impl Graph {
    /// An empty graph; `seed` governs the sampler and every draw.
    pub fn new(seed: u64) -> Graph {
        Graph(Rc::new(RefCell::new(State {
            seed,
            reader: None,
            decoder: None,
            nodes: vec![Node { scope: 0, name: None, kind: Kind::Decode }],
            scopes: vec![0],
            scope: 0,
            outputs: Vec::new(),
            error: None,
        })))
    }

    /// Reads "name label" lines of `file_list`, a path relative to the data directory.
    pub fn read_file_list(&self, file_list: impl Into<String>) -> ReaderBuilder {
        self.reader(ReaderKind::File { file_list: file_list.into() })
    }

    /// Reads one directory a class.
    pub fn read_folders(&self) -> ReaderBuilder {
        self.reader(ReaderKind::Folders)
    }

    /// Reads tar shards of the WebDataset layout, as `forebay pack` and others write them.
    pub fn read_tar(&self) -> ReaderBuilder {
        self.reader(ReaderKind::Tar)
    }

    /// Reads CIFAR-10's binaries: the five training files, or the test file.
    pub fn read_cifar10(&self, train: bool) -> ReaderBuilder {
        self.reader(ReaderKind::Cifar10 { train })
    }

    fn reader(&self, kind: ReaderKind) -> ReaderBuilder {
        ReaderBuilder { graph: self.clone(), spec: ReaderSpec { kind, ..ReaderSpec::default() } }
    }

    /// Decodes to RGB, u8, height x width x 3.
    pub fn decode(&self, jpegs: &Jpegs, device: Placement) -> Image {
        self.decode_with(jpegs, DecoderSpec { device, ..DecoderSpec::default() })
    }

    /// [`Graph::decode`] with every setting of the decoder.
    pub fn decode_with(&self, jpegs: &Jpegs, decoder: DecoderSpec) -> Image {
        self.own(&jpegs.graph);
        if let Err(error) = decoder.check() {
            self.fail(format!("decode: {}", error.message()));
        }
        let earlier = self.0.borrow_mut().decoder.replace(decoder.clone());
        if earlier.is_some_and(|earlier| earlier != decoder) {
            self.fail("decode is called twice with different settings; a graph decodes once");
        }
        Image { graph: self.clone(), id: DECODE }
    }

    /// A draw from lo to hi.
    pub fn uniform(&self, lo: f32, hi: f32) -> Scalar {
        self.draw(Dist::Uniform { lo, hi })
    }

    /// A draw that is true with probability `p`.
    pub fn chance(&self, p: f32) -> Scalar {
        self.draw(Dist::Bernoulli { p })
    }

    /// A draw from the normal distribution.
    pub fn normal(&self, mean: f32, std: f32) -> Scalar {
        self.draw(Dist::Normal { mean, std })
    }

    fn draw(&self, dist: Dist) -> Scalar {
        if let Err(error) = dist.check() {
            self.fail(error.message());
        }
        let id = self.add(Kind::Draw { dist, per_channel: false });
        Scalar { graph: self.clone(), id }
    }

    /// `image` changed by `then` for the samples where `predicate` is true.
    pub fn when(
        &self,
        predicate: impl Into<Scalar>,
        image: &Image,
        then: impl FnOnce(&Image) -> Image,
    ) -> Image {
        self.when_else(predicate, image, then, Image::clone)
    }

    /// `image` changed by `then` where `predicate` is true and by `otherwise` elsewhere. Both
    /// must end with the same shape and type, which is checked when the plan is built.
    pub fn when_else(
        &self,
        predicate: impl Into<Scalar>,
        image: &Image,
        then: impl FnOnce(&Image) -> Image,
        otherwise: impl FnOnce(&Image) -> Image,
    ) -> Image {
        let predicate = predicate.into();
        let (input, predicate) = (self.image_id(image), self.id_of(&predicate.graph, predicate.id));
        let then = self.branch(image, then);
        let otherwise = self.branch(image, otherwise);
        let id = self.add(Kind::When { predicate, input, then, otherwise });
        Image { graph: self.clone(), id }
    }

    /// Runs a branch's closure in a scope of its own.
    fn branch(&self, image: &Image, body: impl FnOnce(&Image) -> Image) -> Branch {
        let (outer, scope) = {
            let mut state = self.0.borrow_mut();
            let (outer, scope) = (state.scope, state.scopes.len());
            state.scopes.push(outer);
            state.scope = scope;
            (outer, scope)
        };
        let result = self.image_id(&body(image));
        self.0.borrow_mut().scope = outer;
        Branch { scope, result }
    }

    /// Delivers `node` in every batch under `name`. Labels go by the name `labels` and are in
    /// every batch, asked for or not.
    pub fn output(&self, name: &str, node: impl Into<Deliverable>) {
        match node.into() {
            Deliverable::Image(image) => {
                let id = self.image_id(&image);
                self.0.borrow_mut().outputs.push((name.to_owned(), id));
            }
            Deliverable::Labels(labels) => {
                self.own(&labels.graph);
                if name != "labels" || labels.dtype != DType::I64 {
                    self.fail("labels are delivered as \"labels\" and as i64, nothing else");
                }
            }
        }
    }

    /// The pipeline built so far.
    ///
    /// # Errors
    /// The first mistake made while building; no reader; no output.
    pub fn spec(&self) -> Result<Spec> {
        let state = self.0.borrow();
        match &state.error {
            Some(error) => Err(error.clone()),
            None => emit::spec(&state),
        }
    }

    /// Keeps the first error for [`Graph::spec`].
    fn fail(&self, message: impl Into<String>) {
        self.0.borrow_mut().error.get_or_insert_with(|| Error::spec(message));
    }

    fn add(&self, kind: Kind) -> Id {
        let mut state = self.0.borrow_mut();
        let scope = state.scope;
        state.nodes.push(Node { scope, name: None, kind });
        state.nodes.len() - 1
    }

    /// Names a draw or the step that makes an image.
    fn name(&self, id: Id, name: &str) {
        let mut state = self.0.borrow_mut();
        let node = &mut state.nodes[id];
        let message = if !is_name(name) || matches!(name, "x" | "decode") {
            format!(
                "{} cannot name a node: letters, digits and _ do, except x and decode",
                quote(name)
            )
        } else if matches!(node.kind, Kind::Decode) {
            format!("the decoded image is called decode and not {}", quote(name))
        } else {
            match node.name.replace(name.to_owned()) {
                Some(old) if old != name => format!("{old:?} is named again, {}", quote(name)),
                _ => return,
            }
        };
        drop(state);
        self.fail(message);
    }

    /// Whether `other` is this graph; an error in both where it is not.
    fn own(&self, other: &Graph) -> bool {
        let same = Rc::ptr_eq(&self.0, &other.0);
        if !same {
            for graph in [self, other] {
                graph.fail("nodes of two graphs are mixed; build a pipeline from one Graph");
            }
        }
        same
    }

    /// A node's id in this graph; that of the decoded image where it is another graph's, which is
    /// an error by then.
    fn id_of(&self, graph: &Graph, id: Id) -> Id {
        if self.own(graph) { id } else { DECODE }
    }

    fn image_id(&self, image: &Image) -> Id {
        self.id_of(&image.graph, image.id)
    }
}
