//! The operators as methods: each adds a step by its name in pipeline files.

use super::{Argument, Border, Graph, Image, Kind};

impl From<Border> for Argument {
    fn from(border: Border) -> Self {
        Argument::from(match border {
            Border::Clamp => "clamp",
            Border::Constant => "constant",
            Border::Reflect => "reflect",
        })
    }
}

impl Graph {
    /// Any operator by its name; [`Image::with`] gives it arguments.
    pub fn op(&self, op: &str, image: &Image) -> Image {
        let input = self.image_id(image);
        let id = self.add(Kind::Op { op: op.to_owned(), input, args: Vec::new() });
        Image { graph: self.clone(), id }
    }

    /// Turns counter-clockwise by `angle` degrees about the exact centre, on a canvas that grows
    /// unless [`Image::keep_size`] is set.
    pub fn rotate(&self, image: &Image, angle: impl Into<Argument>) -> Image {
        self.op("rotate", image).with("angle", angle)
    }

    /// Turns by `angle` degrees about the centre and, as set by [`Image::with`], moves
    /// (`translate`, pixels), scales (`scale`) and shears (`shear_x`, `shear_y`, degrees), keeping
    /// the size.
    pub fn affine(&self, image: &Image, angle: impl Into<Argument>) -> Image {
        self.op("affine", image).with("angle", angle)
    }

    /// Adds `shift`, clamps to 0..255 and casts to u8.
    pub fn rgb_shift(&self, image: &Image, shift: impl Into<Argument>) -> Image {
        self.op("rgb_shift", image).with("shift", shift)
    }

    /// Multiplies by `brightness`, and by `contrast` about the centre; `brightness_shift` and
    /// `contrast_center` can be set by [`Image::with`].
    pub fn brightness_contrast(
        &self,
        image: &Image,
        brightness: impl Into<Argument>,
        contrast: impl Into<Argument>,
    ) -> Image {
        let image = self.op("brightness_contrast", image);
        image.with("brightness", brightness).with("contrast", contrast)
    }

    /// `(image / 255 - mean) / std` in f32.
    pub fn normalize(
        &self,
        image: &Image,
        mean: impl Into<Argument>,
        std: impl Into<Argument>,
    ) -> Image {
        self.op("normalize", image).with("mean", mean).with("std", std)
    }

    /// Mirrors left and right.
    pub fn flip_horizontal(&self, image: &Image) -> Image {
        self.op("flip", image)
    }

    /// Mirrors top and bottom.
    pub fn flip_vertical(&self, image: &Image) -> Image {
        self.op("flip", image).with("horizontal", false).with("vertical", true)
    }

    /// Cuts `[height, width]` out of the centre; `padding` pixels can be added first by
    /// [`Image::with`].
    pub fn crop(&self, image: &Image, size: [i32; 2]) -> Image {
        self.op("crop", image).with("size", size)
    }

    /// Cuts `[height, width]` out at a drawn place; see [`Graph::crop`].
    pub fn random_crop(&self, image: &Image, size: [i32; 2]) -> Image {
        self.crop(image, size).with("position", "random")
    }
}

impl Graph {
    /// The whole image as `[height, width]`, antialiased where it shrinks. By [`Image::with`], `mode`
    /// `"shorter"`, `"longer"`, `"not_smaller"` or `"not_larger"` keeps its aspect.
    pub fn resize(&self, image: &Image, size: [i32; 2]) -> Image {
        self.op("resize", image).with("size", size)
    }

    /// A drawn window of the image as `[height, width]`; its range of `area` and `aspect`, `[least,
    /// largest]`, can be set by [`Image::with`].
    pub fn random_resized_crop(&self, image: &Image, size: [i32; 2]) -> Image {
        self.op("random_resized_crop", image).with("size", size)
    }

    /// `(image - mean) / std` in f32, with `mean` and `std` in levels and as DALI rounds it; a crop
    /// (`size`) and mirrored columns (`mirror`) before can be set by [`Image::with`].
    pub fn crop_mirror_normalize(
        &self,
        image: &Image,
        mean: impl Into<Argument>,
        std: impl Into<Argument>,
    ) -> Image {
        self.op("crop_mirror_normalize", image).with("mean", mean).with("std", std)
    }
}

impl Image {
    /// The operator that made this image with the argument `key` set to `value`, in place of an
    /// earlier value.
    #[must_use]
    pub fn with(&self, key: &str, value: impl Into<Argument>) -> Image {
        let graph = &self.graph;
        let given = graph.given(value.into());
        let (kind, name) = {
            let node = &graph.0.borrow().nodes[self.id];
            (node.kind.clone(), node.name.clone())
        };
        let Kind::Op { op, input, mut args } = kind else {
            graph.fail(format!("{key} is set on something other than an operator's own result"));
            return self.clone();
        };
        args.retain(|(other, _)| other != key);
        args.push((key.to_owned(), given));
        let id = graph.add(Kind::Op { op, input, args });
        graph.0.borrow_mut().nodes[id].name = name;
        Image { graph: graph.clone(), id }
    }

    /// Whether a rotation keeps the image's size or grows the canvas to hold every pixel.
    #[must_use]
    pub fn keep_size(&self, keep: bool) -> Image {
        self.with("keep_size", keep)
    }

    /// What a rotation, affine map or crop reads outside the image.
    #[must_use]
    pub fn border(&self, border: Border) -> Image {
        self.with("border", border)
    }

    /// The value outside the image, which makes the border constant.
    #[must_use]
    pub fn fill(&self, value: impl Into<Argument>) -> Image {
        self.with("fill", value)
    }

    /// Takes the nearest pixel instead of interpolating between four.
    #[must_use]
    pub fn nearest(&self) -> Image {
        self.with("interp", "nearest")
    }

    /// Reorders the axes. `[2, 0, 1]`, from height, width, channels to what PyTorch takes, is the
    /// one order there is.
    #[must_use]
    pub fn transpose(&self, axes: [usize; 3]) -> Image {
        if axes != [2, 0, 1] {
            self.graph.fail(format!("transpose({axes:?}): images transpose by [2, 0, 1]"));
        }
        self.graph.op("transpose", self).with("layout", "CHW")
    }

    /// Names the step that makes this image. The draws of the step depend on its name, so that
    /// other steps can come and go before it.
    #[must_use]
    pub fn named(self, name: &str) -> Image {
        self.graph.name(self.id, name);
        self
    }
}
